"""The words of the story grammar: who can be in a story, where it happens, and with what."""

GIRLS = """Lily Mia Anna Zoe Ella Ruby Rosie Nora Emma Daisy Sara Lucy Clara Maya Ivy Hana Amy Ada
Molly Nina Lena Tara Elsa Poppy Jane Kate Holly Betty Wendy Iris""".split()
BOYS = """Tom Ben Max Sam Leo Jack Tim Finn Noah Oscar Theo Luke Hugo Eli Milo Adam Ravi Omar Paul
Peter Dan Jim Kai Toby Will Henry Jake Oliver Felix Ned""".split()
PET_NAMES = """Pip Rusty Coco Button Pepper Biscuit Misty Dot Hazel Bruno Nutmeg Clover Patch Olive
Ziggy Waffles Maple Juniper Sunny Bubbles Peanut Shadow Ginger Willow Fluffy Pebble Acorn""".split()
ROBOT_NAMES = "Beep Bolt Zap Robo Tick Gizmo Cog Sprocket Chip Widget Blip Rivet".split()

# Names nobody has heard of teach the model to copy letters, so that it can follow a new name.
ONSETS = """b c d f g h j k l m n p r s t v w y z b d f g k l m n p r s t br bl ch cl cr dr fl fr gl
gr kr ph pl pr qu sh sk sl sm sn sp st th tr tw x""".split()
VOWELS = "a e i o u a e i o a e i o y ai au ee ei ie oo ou".split()
CODAS = "b d g ck l m n p r s t x ll nd rk sh".split()
NAME_ENDINGS = ["", "", ""] + CODAS + "la na ra da ma ton ley rin lda bert dor mir".split()

# The common ones are drawn half of the time, so they are learned best.
COMMON_ANIMALS = """fox rabbit bear cat dog mouse squirrel duck owl frog puppy kitten bird
turtle""".split()
ANIMALS = COMMON_ANIMALS + """hedgehog pig lamb goat pony horse deer badger otter beaver mole panda
monkey elephant lion tiger giraffe zebra koala kangaroo penguin seal dolphin whale crab snail
butterfly bee ladybug ant spider lizard dragon unicorn parrot goose hen rooster swan crow raccoon
wolf camel donkey cow sheep hamster bat robin sparrow pigeon fish octopus hippo crocodile""".split()
PEOPLE = {"princess": "she", "prince": "he", "king": "he", "queen": "she", "wizard": "he",
          "witch": "she", "pirate": "he", "knight": "he", "fairy": "she", "giant": "he",
          "farmer": "he", "baker": "she", "sailor": "he", "painter": "she", "mermaid": "she",
          "gnome": "he", "elf": "she", "troll": "he", "monster": "he", "snowman": "he",
          "ghost": "he", "dinosaur": "he", "train": "he", "cloud": "she", "star": "she"}
WISE = ["wise old owl", "kind old turtle", "gentle bear", "clever crow", "friendly deer",
        "quiet old badger", "cheerful robin", "big brown horse", "patient snail", "clever raccoon"]

COLORS = "red blue green yellow orange purple pink white silver golden brown black".split()
LOOKS = ["little", "shiny", "tiny", "old", "pretty", "bright", "lovely", "wooden", "striped",
         "special", "big", "new", "soft", "round", "small"]
SIZES = ["little", "small", "tiny", "young", "brave", "shy", "kind", "curious", "cheerful",
         "clever", "gentle", "playful", "lonely", "friendly", "busy"]

COMMON_THINGS = "kite ball book hat boat drum bell lamp box key cup doll".split()
THINGS = COMMON_THINGS + [thing.replace("_", " ") for thing in """
scarf shell flute whistle button basket blanket umbrella ribbon ring watch mirror map puzzle
truck train wagon teapot spoon lantern feather marble coin crown necklace bracelet toy_robot
toy_car paper_plane music_box pencil paintbrush notebook letter backpack teddy_bear pillow
sweater mitten sock shoe cape jar bottle candle bucket shovel trumpet violin guitar compass
clock telescope magnet rope stone star pinecone acorn flower snow_globe yo-yo whirligig jacket
mug plate bowl
""".split()]
FLYING = ["kite", "ball", "hat", "paper plane", "scarf", "ribbon", "balloon", "feather", "umbrella"]
BREAKABLE = ["cup", "kite", "toy car", "drum", "music box", "boat", "lamp", "clock", "doll",
             "wagon", "teapot", "flute", "toy robot", "violin", "lantern", "vase", "jar",
             "umbrella"]
FOODS = ["cake", "soup", "pie", "bread", "jam", "pancakes", "cookies", "salad", "pudding"]
FOOD_NEEDS = {
    "cake": ["eggs", "milk", "sugar", "flour"], "soup": ["carrots", "beans", "onions", "mushrooms"],
    "pie": ["apples", "berries", "plums", "cherries"], "bread": ["flour", "seeds", "salt"],
    "jam": ["berries", "plums", "cherries", "peaches"], "pancakes": ["eggs", "milk", "butter"],
    "cookies": ["butter", "nuts", "honey", "sugar"], "salad": ["tomatoes", "nuts", "carrots"],
    "pudding": ["milk", "honey", "peaches"]}
SEEDS = ["sunflower", "carrot", "pumpkin", "bean", "strawberry", "tulip", "apple", "rose", "tomato"]

# place: (preposition, what it is called, where things hide there, what is seen or heard there)
PLACES = {
    "forest": ("in", "the forest", ["under a green fern", "behind an old oak tree",
               "beside a mossy log", "in a pile of leaves", "between two big roots"],
               ["The leaves whispered in the wind", "Birds sang high in the trees",
                "It smelled of moss and pine"]),
    "park": ("in", "the park", ["under a bench", "behind the slide", "next to the fountain",
             "in the tall grass", "near the swings"],
             ["Children laughed on the swings", "The fountain sparkled in the sun",
              "The grass was soft and green"]),
    "beach": ("at", "the beach", ["behind a rock", "under some seaweed", "in the warm sand",
              "beside a sand castle", "near a little pool"],
              ["The waves rolled in and out", "Seagulls called in the sky",
               "The sand was warm and soft"]),
    "garden": ("in", "the garden", ["under a rose bush", "behind the watering can",
               "between the pumpkins", "under a big leaf", "next to the gate"],
               ["Bees hummed around the flowers", "The roses smelled sweet",
                "Butterflies danced over the flowers"]),
    "meadow": ("in", "the meadow", ["in the tall grass", "behind a gray stone",
               "among the daisies", "under a bush", "near the old fence"],
               ["The wind moved the grass like waves", "Daisies nodded in the sun",
                "Crickets sang in the grass"]),
    "river": ("by", "the river", ["under the bridge", "behind a wet rock", "among the reeds",
              "in the mud", "next to an old boat"],
              ["The water sang over the stones", "Little fish swam in the water",
               "The river sparkled in the light"]),
    "hill": ("on", "the hill", ["behind a big stone", "under a lonely tree", "in a small hole",
             "among the wild flowers", "beside the path"],
             ["The wind blew across the grass", "Clouds sailed slowly over the hill",
              "The whole valley lay below"]),
    "market": ("at", "the market", ["under a table", "behind a basket of apples",
               "next to the baker's cart", "in an empty box", "near the flower stand"],
               ["People talked and laughed everywhere", "The air smelled of fresh bread",
                "Bright flags waved above the tables"]),
    "farm": ("on", "the farm", ["in the hay", "behind the barn", "under the wagon",
             "next to the well", "near the hen house"],
             ["Hens walked around in the yard", "The old barn door creaked",
              "A cow mooed far away"]),
    "lake": ("by", "the lake", ["under a willow tree", "behind a boat", "among the reeds",
             "beside the little dock", "in the tall grass"],
             ["The lake was smooth like a mirror", "Ducks swam in a long line",
              "Dragonflies flew over the water"]),
}
HOMES = ["in a small house near {place}", "in a cozy cottage by {place}", "at the edge of {place}",
         "not far from {place}", "in a little house next to {place}"]

WEATHER = ["sunny", "windy", "cloudy", "bright", "cool", "warm", "fine", "calm", "golden", "quiet"]
TIMES = ["morning", "day", "afternoon", "evening"]
SAD = ["sad", "worried", "upset", "very sad", "sad and lonely"]
GLAD = ["happy", "glad", "very happy", "proud", "full of joy", "happy and proud", "delighted"]
FEARS = {"the dark": "The room was very dark, and the shadows looked like monsters",
         "thunder": "There was a loud crash of thunder, and the windows shook",
         "deep water": "The water looked deep and cold",
         "high places": "The ground looked very far away",
         "spiders": "A big spider sat on the wall and looked down",
         "ghosts": "Something white moved behind the window",
         "loud noises": "There was a loud bang outside",
         "the old well": "A strange sound came from the old well"}
LESSONS = ["sharing makes every game better", "good friends always help each other",
           "it is always best to tell the truth", "even small friends can do big things",
           "being kind is a kind of magic", "it is never too late to say sorry",
           "a little patience goes a long way", "being brave means trying even when you are afraid"]
SYSTEM_LINES = ["You are a kind storyteller.", "You tell short stories for children.",
                "Use simple words.", "Always give the story a happy ending.",
                "Stay on the topic that the child asks for.", "Every story has a beginning, "
                "a middle and an end.", "Keep the story short.", "Be gentle and cheerful.",
                "The children are listening by the fire, and it is almost time for bed."]
