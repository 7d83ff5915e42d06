// The program of lesson 04.
int main() { return 0; }
