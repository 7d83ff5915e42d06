"""Tells a plot of plots.txt, which says how it is written, with the words of words.json."""
import json
import pathlib
import re
import types

HERE = pathlib.Path(__file__).resolve().parent
words = types.SimpleNamespace(**json.loads((HERE / "words.json").read_text(encoding="utf-8")))


def read_parts():
    """Of each part its sentences, each a list of ways to say it (empty: a new paragraph); and the plots' weights."""
    parts, weights = {}, {}
    for text in re.split(r"^== ", (HERE / "plots.txt").read_text(encoding="utf-8"), flags=re.M)[1:]:
        head, *lines = text.rstrip().split("\n")
        name, _, weight = head.partition(" ")
        if weight:
            weights[name] = int(weight)
        parts[name] = []
        for line in lines:
            if line.startswith("  "):
                parts[name][-1].append(line.strip())
            else:
                parts[name].append([line] if line else [])
    return parts, weights


PARTS, WEIGHTS = read_parts()


def article(phrase):
    """'a' or 'an' in front of a phrase (no word of ours begins with a silent h or a hard u)."""
    if phrase.startswith("unicorn"):
        return "a " + phrase
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


# --- what a plot sets before it is told, where the text alone cannot say it


def afraid(s):
    fear = s.pick(sorted(words.fears))
    s.set(fear=fear, scary=words.fears[fear])


def lost_baby(s):
    baby = s.pick([a for a in words.common_animals + words.animals if a != s.kind and a not in s.slots["f"]])
    look = s.pick(words.baby_looks)
    s.set(a_baby=f"a {look} {baby}", the_baby=f"the {look} {baby}", animal=baby, an_animal=article(baby))


def cooking(s):
    food = s.pick(words.foods)
    first, second = s.rng.sample(words.food_needs[food], 2)
    several = food in ("pancakes", "cookies")
    a_food = food if several or food in ("soup", "bread", "jam") else f"a {food}"
    s.set(food=food, a_food=a_food, first=first, second=second, it="them" if several else "it",
          food_was="were" if several else "was", this_is="these are" if several else "this is")


def growing(s):
    seed = s.pick(words.seeds)
    s.set(seed=seed, a_seed=article(seed))


def growing_end(s):
    s.set(f=s.slots["g"])


def race(s):
    s.topics = ["a race", *s.friend_topics]


def new_friend(s):
    s.topics = [*s.friend_topics, "a new friend"]
    if "friend" in s.slots["f_intro"]:  # a child: not a friend yet
        child = "girl" if s.slots["fhe"] == "she" else "boy"
        s.set(f_intro=f"a {child} named {s.slots['f']}")


SETUPS = {setup.__name__: setup for setup in (afraid, lost_baby, cooking, growing, growing_end, race, new_friend)}


# --- telling


def one_of(s, choices):
    """The part that `12 % one | other` chooses."""
    draw = s.rng.random() if "|" in choices else 0
    for choice in choices.split(" | "):
        percent, _, name = choice.rpartition(" % ")
        if not percent or draw < int(percent) / 100:
            return name


def set_up(s, what, phrases, slot, name):
    """A line `thing: flying`, `topics: a | b`, `wishes: a | b` or `{skill} is one of skills`."""
    if slot:
        s.set(**{slot: s.pick(getattr(words, name))})
    elif what == "thing":
        s.set_thing(*(s.pick(getattr(words, name)) for name in phrases.split(", ")))
    else:
        setattr(s, what, [phrase.format(**s.slots) for phrase in phrases.split(" | ")])


def close_story(s, morals):
    """The ending, with a moral now and then."""
    moral = s.pick(morals) if len(morals) > 1 else "".join(morals)
    if s.rng.random() < 0.35:
        s.paragraph()
    tell_part(s, "close")
    if moral and s.rng.random() < 0.6:
        s.set(moral=moral)
        tell_part(s, "moral")
    tell_part(s, "the_end")


def tell_part(s, name):
    if name in SETUPS:
        SETUPS[name](s)
    for ways in PARTS[name]:
        if not ways:
            s.paragraph()
        elif found := re.match(r"(thing|topics|wishes): (.*)|\{(\w+)\} is one of (.*)", ways[0]):
            set_up(s, *found.groups())
        elif ways[0] == "-> close_story":
            close_story(s, ways[1:])
        elif ways[0] == "-> open_home" and s.slots["home"] in s.paragraphs[-1][-1]:
            continue  # it has just been said
        elif ways[0].startswith("-> "):
            tell_part(s, one_of(s, ways[0].removeprefix("-> ")))
        elif often := re.match(r"\((\d+) %\) ", ways[0]):
            s.say(ways[0][often.end():], *ways[1:], chance=int(often[1]) / 100)
        else:
            s.say(*ways)


def tell(s):
    """Chooses a plot and tells it. Leaves in s.topics what the story is about."""
    plot, = s.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
    tell_part(s, plot)
    if not s.topics:
        s.topics = s.thing_topics + s.friend_topics[:1]
