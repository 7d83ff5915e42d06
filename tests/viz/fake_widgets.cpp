// Widgets that draw nothing, for tests with FakeUi.

#include "viz/widgets.h"

namespace viz {

std::optional<int32_t> pool_grid(Ui&, const std::string&, const PoolView&) { return {}; }
std::optional<int> block_table(Ui&, const std::string&, const TableView&) { return {}; }
void counters(Ui&, const std::vector<Counter>&) {}
std::optional<int> token_row(Ui&, const std::string&, const std::vector<TokenView>&) { return {}; }

}  // namespace viz
