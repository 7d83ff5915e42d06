#!/usr/bin/env python3
"""Writes little children's stories from a grammar of our own: the training text of models/tiny.

    python3 models/tiny/making/make_stories.py --count 100000 --seed 1 --out stories.txt
    python3 models/tiny/making/make_stories.py --count 3 --seed 7            # three stories, to read

A story has a hero, a thing, a place and a helper, and one of the plots in story_plots.py. They stay
the same from the first sentence to the last, so a model that learns from the stories has to look
back. Each sample ends with <|endoftext|>. About one sample in six is a chat in Qwen's format: a
request that names what the story is about, then the story. The same seed gives the same text.
"""
import argparse
import random
import re
import sys

import story_plots
import story_words as words

END = "<|endoftext|>"


def article(phrase):
    """'a' or 'an' in front of a phrase (no word of ours begins with a silent h or a hard u)."""
    if phrase.startswith("unicorn"):
        return "a " + phrase
    return ("an " if phrase[0] in "aeiou" else "a ") + phrase


def capital(text):
    """First letter large; an opening quotation mark is skipped."""
    for i, c in enumerate(text):
        if c.isalpha():
            return text[:i] + c.upper() + text[i + 1:]
    return text


PRONOUNS = {
    "she": ("she", "her", "her", "herself", "was", "I", "my", "me", "am", "mine"),
    "he": ("he", "him", "his", "himself", "was", "I", "my", "me", "am", "mine"),
    "they": ("they", "them", "their", "themselves", "were", "we", "our", "us", "are", "ours"),
}
PRONOUN_SLOTS = ("he", "him", "his", "himself", "was", "I", "my", "me", "am", "mine")


class Story:
    """One story in the making: the slots (who, what, where) and the sentences so far."""

    def __init__(self, rng):
        self.rng = rng
        self.slots = {}
        self.paragraphs = [[]]
        self.topics = []  # how a request may name what this story is about
        self.wishes = []  # and what happens in it ("who lost a kite")
        self._choose_hero()
        self._choose_place()
        self.set_thing(rng.choice(words.COMMON_THINGS if rng.random() < 0.5 else words.THINGS))
        self._choose_friend()
        self._choose_elder()

    def pick(self, options):
        return self.rng.choice(options)

    def set(self, /, **slots):
        """Adds slots; each also gets a variant that begins with a capital letter."""
        for key, value in slots.items():
            self.slots[key] = value
            self.slots[key[0].upper() + key[1:]] = capital(value)

    def say(self, *variants, chance=1.0):
        """Adds one of the variants, or nothing if the chance says so.

        A variant that begins with ~ is only for a single hero ("a tear rolled down her cheek").
        """
        if chance < 1.0 and self.rng.random() >= chance:
            return
        self.set(sad=self.pick(words.SAD), glad=self.pick(words.GLAD))
        variants = [v for v in variants if self.gender != "they" or not v.startswith("~")]
        text = self.pick(variants).removeprefix("~").format(**self.slots)
        text = re.sub(r'((?:^|(?<= ))"|[.!?] )(we|our)\b', lambda m: m[1] + capital(m[2]), text)
        self.paragraphs[-1].append(capital(text))

    def paragraph(self):
        if self.paragraphs[-1]:
            self.paragraphs.append([])

    def text(self):
        return "\n\n".join(" ".join(p) for p in self.paragraphs if p)

    # --- who, where, what ---------------------------------------------------------------------

    def _new_name(self, names):
        if self.rng.random() < 0.25:
            count = self.pick([1, 2, 2, 3])
            name = "".join(self.pick(words.ONSETS) + self.pick(words.VOWELS) for _ in range(count))
            return capital(name + self.pick(words.NAME_ENDINGS if count > 1 else words.CODAS))
        return self.pick(names)

    def _animal(self):
        return self.pick(words.COMMON_ANIMALS if self.rng.random() < 0.5 else words.ANIMALS)

    def _choose_hero(self):
        """Slots h (how the hero is called), intro, kind, and the pronouns."""
        size = self.pick(words.SIZES)
        draw = self.rng.random()
        if draw < 0.16:  # two children
            pair = [self._new_name(words.GIRLS), self._new_name(words.BOYS)]
            self.rng.shuffle(pair)
            self.names = set(pair)
            kind, gender, name = "two children", "they", " and ".join(pair)
            intro = self.pick([f"two children named {name}", f"two good friends named {name}"])
        elif draw < 0.50:  # a child
            gender = self.pick(["she", "he"])
            kind = "girl" if gender == "she" else "boy"
            name = self._new_name(words.GIRLS if gender == "she" else words.BOYS)
            intro = self.pick([article(f"{size} {kind} named {name}"),
                               f"{article(kind)} named {name}",
                               article(f"{size} {kind} called {name}")])
        else:  # an animal or a robot, with or without a name
            gender = self.pick(["she", "he"])
            kind, names = self._animal(), words.PET_NAMES
            if draw > 0.90:
                kind, names = "robot", words.ROBOT_NAMES
            elif draw > 0.78:
                kind = self.pick(sorted(words.PEOPLE))
                gender = words.PEOPLE[kind]
                names = words.GIRLS if gender == "she" else words.BOYS
            named = self.rng.random() < 0.6
            name = self._new_name(names)
            if not named:
                size = self.pick([size, "little"])
                name = self.pick([f"the {kind}", f"the {size} {kind}"])
            intro = article(f"{size} {kind}") + (f" named {name}" if named else "")
        if gender != "they":
            self.names = {name}
        self.kind, self.gender, self.animal_hero = kind, gender, kind not in (
            "girl", "boy", "two children")
        for slot, word in zip(PRONOUN_SLOTS, PRONOUNS[gender]):
            self.set(**{slot: word})
        self.slots["I"] = PRONOUNS[gender][5]
        self.set(h=name, intro=intro, kind=kind, size=size)
        hero = article(kind) if self.animal_hero else None
        self.hero_topics = [t for t in (hero, intro, None if name.startswith("the") else name) if t]

    def _choose_place(self):
        prep, place, spots, sights = words.PLACES[self.pick(sorted(words.PLACES))]
        spot, other = self.rng.sample(spots, 2)
        self.set(place=place, at=f"{prep} {place}", spot=spot, other_spot=other,
                 sight=self.pick(sights))
        self.set(home=self.pick(words.HOMES).format(place=place))
        self.set(weather=self.pick(words.WEATHER), time=self.pick(words.TIMES))

    def set_thing(self, noun, look=None):
        """Slots thing ("kite"), a_thing ("a red kite"), the_thing, look_thing ("red kite")."""
        look = look or self.pick(words.COLORS if self.rng.random() < 0.6 else words.LOOKS)
        self.look = look
        self.set(thing=noun, look_thing=f"{look} {noun}", a_thing=article(f"{look} {noun}"),
                 the_thing=f"the {self.pick([noun, noun, f'{look} {noun}'])}")
        self.thing_topics = [article(noun), article(f"{look} {noun}")]

    def _choose_friend(self):
        """Slots f, f_intro and the friend's pronouns: always one, and never of the hero's kind."""
        gender = self.pick(["she", "he"])
        self.friend_topics = []
        if not self.animal_hero and self.rng.random() < 0.5:
            name = self.pick([n for n in (words.GIRLS if gender == "she" else words.BOYS)
                              if n not in self.names])
            intro = f"{self.slots['his']} friend {name}"
        elif self.rng.random() < 0.35:
            animal = self.pick([w for w in words.WISE if w.split()[-1] != self.kind])
            name, intro = f"the {animal.split()[-1]}", article(animal)
            self.friend_topics = [article(animal.split()[-1])]
        else:
            animal = self._animal()
            while animal == self.kind:
                animal = self._animal()
            self.friend_topics = [article(animal)]
            if self.rng.random() < 0.5:
                name = self.pick([n for n in words.PET_NAMES if n not in self.names])
                sized = f"{self.pick(words.SIZES)} {animal}"
                intro = self.pick([f"{article(animal)} named {name}",
                                   f"{article(sized)} named {name}"])
            else:
                name, intro = f"the {animal}", article(f"{self.pick(words.SIZES)} {animal}")
        pronouns = PRONOUNS[gender]
        self.set(f=name, f_intro=intro, fhe=pronouns[0], fhim=pronouns[1], fhis=pronouns[2])

    def _choose_elder(self):
        """Slots g and the elder's pronouns: somebody older at home."""
        if self.kind == "robot":
            name, gender = self.pick([("the old inventor", "he"), ("the clockmaker", "she")])
        elif self.animal_hero:
            name, gender = self.pick([("mother", "she"), ("father", "he"), ("grandmother", "she")])
            name = f"{self.slots['his']} {name}"
        else:
            name, gender = self.pick([("Mom", "she"), ("Dad", "he"), ("Grandma", "she"),
                                      ("Grandpa", "he")])
        pronouns = PRONOUNS[gender]
        own = name if name[0] != "h" else "my " + name.split(" ", 1)[1]
        self.set(g=name, my_g=own, ghe=pronouns[0], ghim=pronouns[1], ghis=pronouns[2])


def request(story):
    """What a child asks for: names things that the story is really about."""
    rng = story.rng
    hero = rng.choice(story.hero_topics)
    second = rng.choice(story.topics) if story.topics else None
    if story.wishes and rng.random() < 0.35:
        hero, second = f"{hero} {rng.choice(story.wishes)}", None
    about = hero if second is None or rng.random() < 0.15 else f"{hero} and {second}"
    return rng.choice([
        f"Tell me a story about {about}.", f"Tell me a story about {about}.",
        f"Please tell me a story about {about}.", f"Can you tell me a story about {about}?",
        f"Write a short story about {about}.", f"I want to hear a story about {about}.",
        f"Write a story about {about}.", f"Once more, a story about {about}, please.",
    ])


def title(story):
    topic = story.pick(story.topics) if story.topics else None
    name = story.slots["h"] if story.slots["h"] in story.hero_topics else f"the {story.kind}"
    phrase = capital(name)
    if topic:
        phrase += " and " + ("the " + topic.split(" ", 1)[1] if topic[:2] in ("a ", "an")
                             else topic)
    small = {"and", "the", "of", "a"}
    return " ".join(w if w in small and i else capital(w) for i, w in enumerate(phrase.split()))


def make_sample(rng):
    """One training sample: a story, perhaps with a title, or a chat that asks for one."""
    story = Story(rng)
    story_plots.tell(story)
    text = story.text()
    draw = rng.random()
    if draw < 0.17:
        chat = ""
        if rng.random() < 0.35:
            lines = rng.sample(words.SYSTEM_LINES, rng.randint(1, 5))
            chat = "<|im_start|>system\n" + " ".join(lines) + "<|im_end|>\n"
        chat += f"<|im_start|>user\n{request(story)}<|im_end|>\n"
        return chat + f"<|im_start|>assistant\n{text}<|im_end|>\n{END}"
    if draw < 0.25:
        text = f"{title(story)}\n\n{text}"
    return text + END


def make_stories(count, seed):
    """`count` distinct samples; the same seed gives the same list."""
    rng = random.Random(seed)
    samples = {}
    while len(samples) < count:
        samples[make_sample(rng)] = None
    return list(samples)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", help="a text file; without it, to the terminal")
    args = parser.parse_args()
    text = "\n".join(make_stories(args.count, args.seed)) + "\n"
    if args.out:
        with open(args.out, "w", encoding="utf-8") as file:
            file.write(text)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
