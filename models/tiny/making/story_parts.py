"""What the plots of the story grammar share: beginnings, endings, and a friend who comes along.

A sentence is one of several ways to say the same thing, with slots in braces: {h} the hero, {he},
{him} and {his} the hero's pronouns ({I}, {my}, {me}, {am} when the hero speaks, {was} in the past
tense), {f} the friend, {g} somebody older, {the_thing}, {at} the place. A slot that begins with a
capital letter begins a sentence. Story, in make_stories.py, fills the slots.
"""


def open_story(s):
    """Who the hero is. Many ways to begin, so that many prompts feel familiar."""
    draw = s.rng.random()
    if draw < 0.06:
        s.say("~{Intro} lived {home}.", "~{Intro} was walking {at}.",
              "~{Intro} loved to play {at}.", "{H} {was} {intro}. {He} lived {home}.",
              "~{Intro} woke up on a {weather} {time}.")
    elif draw < 0.34:
        s.say("Once upon a time, there {was} {intro}.", "Once upon a time, {intro} lived {home}.",
              "Once upon a time there {was} {intro}.",
              "Once upon a time, in a land far away, there {was} {intro}.",
              "Once there {was} {intro}.", "Long ago, there {was} {intro}.",
              "There once {was} {intro}.", "Once upon a time, {at}, there {was} {intro}.")
        if s.slots["home"] not in s.paragraphs[-1][-1]:
            s.say("{H} lived {home}.", "{He} lived {home}.", chance=0.25)
        s.say("{He} liked to play {at}.", "Every day {he} went to {place} to play.", chance=0.3)
    elif draw < 0.50:
        s.say("{At}, there lived {intro}.", "Near {place} there lived {intro}.",
              "Deep in the woods, there lived {intro}.", "Far away, near {place}, lived {intro}.",
              "Long ago, in a village by the sea, there {was} {intro}.",
              "In a small village there lived {intro}.", "At the edge of {place} lived {intro}.")
        s.say("{H} loved to play {at}.", "{He} knew every path near {place}.",
              "Everybody there liked {h}.", chance=0.5)
    elif draw < 0.78:
        s.say("One day, {h} went to {place}.", "One {weather} {time}, {h} {was} {at}.",
              "It was a {weather} {time}, and {h} {was} {at}.", "One {time}, {h} woke up early.",
              "{H} woke up on a {weather} {time}.", "One {weather} day, {h} wanted to play {at}.",
              "It was a {weather} {time}. {H} wanted to go to {place}.",
              "Last summer, {h} spent every day {at}.", "One {time}, {h} walked to {place}.")
        s.say("{Sight}.", "The air was fresh, and {he} felt happy.", "{He} liked {weather} days.",
              chance=0.5)
    else:
        s.say("{H} lived {home}.", "{H} {was} very {size}.", "{H} loved to play {at}.",
              "{H} liked {weather} days best of all.", "{H} loved stories and games.",
              "{H} {was} always ready for an adventure.", "{H} went to {place} every day.",
              "This is the story of {h}.")
        s.say("Everybody liked {h}.", "{He} had many friends.", "{Sight}.", chance=0.4)


def open_with_thing(s):
    """The hero and the thing that the story is about, now and then without a word before it."""
    if s.rng.random() < 0.85:
        open_story(s)
    elif s.rng.random() < 0.4:
        s.say("~{Intro} had {a_thing}.", "Once upon a time, {intro} had {a_thing}.",
              "There once {was} {intro} who had {a_thing}.")
        return
    had_thing(s)


def had_thing(s):
    s.say("{H} had {a_thing}.", "{He} had {a_thing} that {he} loved very much.",
          "{His} favorite toy was {a_thing}.", "{H} had {a_thing}, and {he} took it everywhere.",
          "For {his} birthday, {g} gave {him} {a_thing}.", "{G} had made {a_thing} for {him}.")
    s.say("{He} played with it every day.", "There was no other {thing} like it.",
          "It was the best {thing} in the world.", "{He} always took good care of it.", chance=0.5)


def meet_friend(s, crying=True):
    """The friend comes in and hears what is wrong."""
    s.say("Just then, {f_intro} came along.", "Then {f_intro} came by.", "Soon {h} met {f_intro}.",
          "Along came {f_intro}.", "{F_intro} saw {him} and came closer.")
    if crying:
        s.say('"Why are you so sad?" asked {f}.', '"What is wrong?" asked {f}.',
              '"Can I help you?" asked {f} in a soft voice.', '{F} asked, "What happened?"')


def close_story(s, moral=None):
    """The ending, with a moral now and then."""
    if s.rng.random() < 0.35:
        s.paragraph()
    s.say("{H} went home with a big smile.", "That night, {h} fell asleep with a smile.",
          "{H} and {f} laughed and played until the sun went down.",
          "From that day on, {h} and {f} were the best of friends.", "It was the best day ever.",
          "And {h} {was} {glad}.", "{H} never forgot that day.",
          "When the stars came out, {h} {was} still smiling.",
          "They danced and sang all the way home.")
    if moral and s.rng.random() < 0.6:
        s.set(moral=moral)
        s.say("{H} had learned that {moral}.", "Now {he} knew that {moral}.",
              "And so {h} learned that {moral}.", '"Remember," said {g}, "{moral}."')
    s.say("The end.", "And they all lived happily ever after.", chance=0.25)
