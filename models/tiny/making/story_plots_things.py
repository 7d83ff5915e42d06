"""Plots about a thing: lost, stuck, broken, shared, found, made, given (slots: story_parts.py)."""
import story_words as words
from story_parts import close_story, had_thing, meet_friend, open_story, open_with_thing


def lost_thing(s):
    s.wishes = [f"who lost {thing}" for thing in s.thing_topics]
    if s.rng.random() < 0.12:
        s.say('"Where is {my} {thing}?" asked {h}.', '"{I} can not find {my} {thing}!" said {h}.',
              '"Have you seen {my} {thing}?" asked {h}.')
        had_thing(s)
    else:
        open_with_thing(s)
    s.paragraph()
    s.say("One day, {the_thing} was gone.", "But one {time}, {h} could not find {the_thing}.",
          "One {weather} {time}, {h} lost {the_thing} {at}.",
          "Then something bad happened. {The_thing} was gone!")
    s.say("{He} looked {other_spot}, but it was not there.",
          "{H} looked here and there, but {he} could not see it.",
          "{He} looked {other_spot}. No {thing}. {He} looked again. Still no {thing}.")
    s.say("{H} {was} {sad}, and {he} began to cry.", '"Where is {my} {thing}?" cried {h}.',
          "{He} sat down and felt {sad}.", "{H} {was} {sad}.")
    meet_friend(s)
    s.say('"{I} lost {my} {look_thing}," said {h}.',
          '"{My} {thing} is gone," said {h}. "{I} looked everywhere."',
          "{H} told {f} about {the_thing}.")
    s.say('"Do not worry," said {f}. "We will look for it together."',
          '"I will help you find it," said {f}.',
          '"Let us look together," said {f}. "Four eyes see more than two."')
    s.say("They searched all over {place}.",
          "They walked around {place} and looked at every corner.",
          "{F} looked high, and {h} looked low.", chance=0.7)
    s.say("At last, {f} looked {spot}. There was {the_thing}!",
          "Then {h} saw something {spot}. It was {the_thing}!",
          'Suddenly {f} called, "Look! Something is {spot}!" It was {the_thing}.')
    s.say('{H} hugged {f}. "Thank you!" {he} said.', '"Thank you so much!" said {h}.',
          "{H} {was} so {glad} that {he} jumped up and down.")
    close_story(s, "good friends always help each other")


def stuck_in_tree(s):
    s.set_thing(s.pick(words.FLYING))
    s.wishes = [f"whose {s.slots['thing']} is stuck in a tree"]
    open_with_thing(s)
    s.paragraph()
    s.say("One {time}, the wind was strong, and {the_thing} flew up into a tall tree.",
          "Suddenly the wind took {the_thing} and carried it into a tree.",
          "{H} {was} playing {at} when a gust of wind blew {the_thing} into a high tree.")
    s.say("{H} jumped and jumped, but {he} could not reach it.", "The branch was much too high.",
          "{He} tried to climb up, but the tree was too tall.",
          "{H} threw a stick at the branch, but {the_thing} did not move.")
    s.say('"Oh no! {My} {thing} is stuck," said {h}.', "{H} {was} {sad}.",
          '"How can {I} get it down?" said {h}.')
    meet_friend(s, crying=False)
    s.say('"{My} {thing} is stuck in the tree," said {h}.', "{H} pointed up at {the_thing}.")
    s.say('{F} had an idea. "I will get a long ladder," {fhe} said.',
          '"Let me try," said {f}. {Fhe} had a very long stick.',
          '"We can do it together," said {f}. "You can stand on my shoulders."',
          '{F} thought for a moment. "If we shake the tree, it will fall," {fhe} said.')
    s.say("They tried once. They tried twice. Then {the_thing} came down!",
          "It took a long time, but at last {the_thing} fell softly to the ground.",
          "Very carefully, they got {the_thing} down from the tree.")
    s.say('"Hooray!" shouted {h}. "Thank you for your help!"', '"You did it!" said {h}.',
          "{H} thanked {f} again and again.")
    s.say("After that, they played with {the_thing} together.",
          '"Now it is your turn to play with it," said {h}.',
          "{H} let {f} play with {the_thing} too.")
    close_story(s, s.pick(["good friends always help each other",
                           "even small friends can do big things"]))


def broken_thing(s):
    s.set_thing(s.pick(words.BREAKABLE))
    s.wishes = [f"who broke {thing}" for thing in s.thing_topics]
    open_with_thing(s)
    s.paragraph()
    s.say("One {time}, {h} ran too fast and dropped {the_thing}.",
          "One day, {the_thing} fell down and broke.",
          "While {h} {was} playing, {the_thing} fell on a stone.")
    s.say("Crack! It broke into two pieces.", "There was a loud crack, and a piece came off.",
          "Now it was broken.")
    s.say("{H} looked at the pieces and {was} {sad}.",
          '"Oh no," said {h}. "{My} {thing} is broken."', "~A tear rolled down {his} cheek.")
    s.say("{H} took the pieces to {g}.", "{He} carried the pieces home and showed them to {g}.",
          "{G} heard {him} and came to see what was wrong.")
    s.say('"Do not be sad," said {g}. "We can fix it."',
          '{G} looked at the pieces and smiled. "I think we can mend this," {ghe} said.',
          '"Things can break," said {g}, "but many things can be fixed."')
    s.say("{G} brought some glue and a piece of string.",
          "They found some glue and a little brush.",
          "{G} held the pieces, and {h} put on the glue.")
    s.say("They worked slowly and carefully.", "It took all {time}, but they did not give up.",
          "They waited until the glue was dry.")
    s.say("At last, {the_thing} was whole again.", "Soon {the_thing} looked as good as new.",
          "When they were done, {the_thing} was even stronger than before.")
    s.say('"Thank you, thank you!" said {h}.', "{H} gave {g} a big hug.", "{H} {was} {glad}.")
    s.say("Later, {h} showed {the_thing} to {f_intro}.",
          "The next day, {h} played with {f_intro}, and {he} {was} very careful with {the_thing}.")
    close_story(s, "a little patience goes a long way")


def share_thing(s):
    s.wishes = ["who did not want to share", f"who did not want to share {s.thing_topics[0]}"]
    open_with_thing(s)
    s.paragraph()
    s.say("One day, {f_intro} came to play.", "One {time}, {h} met {f_intro} {at}.")
    s.say('"May I play with your {thing}?" asked {f}.',
          '"What a nice {thing}!" said {f}. "Can I try it?"',
          '{F} looked at {the_thing}. "Can I have a turn?" {fhe} asked.')
    s.say('"No," said {h}. "It is {mine}."', "~{H} shook {his} head and held {the_thing} tight.",
          "{H} held {the_thing} tight and said no.", '"No! This is {my} {thing}," said {h}.')
    s.say("{F} was {sad} and walked away.", "{F} looked down at the ground and said nothing.",
          "{F} went away without a word.")
    s.say("{H} played alone, but it was not fun.",
          "Now {h} {was} alone with {the_thing}, and it felt very quiet.",
          "{H} played for a while, but {he} felt bad.")
    s.say('{G} saw it and said, "A {thing} is more fun with a friend."',
          "{H} thought about {f}. It was not nice to say no.",
          "{H} remembered how {sad} {f} had looked.")
    s.say('So {h} ran after {f}. "{I} {am} sorry," {he} said. "Let us play together."',
          '{H} found {f} {spot}. "Please come back," {he} said. "You can have the first turn."')
    s.say("{F} smiled, and they took turns with {the_thing}.",
          "{F} was {glad}, and they played with {the_thing} all {time}.",
          "They played with {the_thing} until it was dark.")
    close_story(s, "sharing makes every game better")


def tell_truth(s):
    open_story(s)
    s.say("{F_intro} had {a_thing} and loved it very much.",
          "{F_intro} had {a_thing}. It was very special.")
    s.say("One day, {f} let {h} play with it.",
          '"You may play with it," said {f}, "but please be careful."')
    s.paragraph()
    s.say("But {h} {was} not careful, and {the_thing} fell into the mud.",
          "But {h} ran too fast. {He} fell, and {the_thing} broke.",
          "{H} played too wildly, and {the_thing} got a big crack.")
    s.say('"Oh no! What will {f} say?" said {h}.', "{H} {was} afraid that {f} would be angry.")
    s.say("{He} hid {the_thing} {spot} and ran home.",
          "{He} put {the_thing} {spot}, where nobody could see it.")
    s.say('Later, {f} asked, "Where is my {thing}?"',
          'In the evening, {f} came and asked, "Have you seen my {thing}?"')
    s.say('"{I} do not know," said {h}. But {he} felt bad inside.',
          "{H} said nothing and looked at the floor.")
    s.say("That night, {h} could not sleep.", "{H} could not eat, and {he} could not play.",
          '{H} told {g} about it. "You should tell the truth," said {g}.')
    s.say("The next morning, {he} went to {f} and told {fhim} everything.",
          'So {he} ran to {f}. "It was {my} fault," {he} said. "{I} {am} very sorry."')
    s.say('{F} was quiet for a moment. Then {fhe} smiled. "Thank you for telling me the truth," '
          '{fhe} said.', '"I am a little sad," said {f}, "but I am glad that you told me."')
    s.say("Together they cleaned and fixed {the_thing}.",
          "They got {the_thing} and fixed it together.", "They made {the_thing} as good as new.")
    close_story(s, "it is always best to tell the truth")


def treasure(s):
    s.set_thing(s.pick(["map", "key", "letter", "box", "bottle",
                        "compass"]), s.pick(["old", "golden", "small", "strange", "rusty"]))
    s.set(prize=s.pick(["a box full of shiny stones", "a hundred old coins",
                        "a book full of wonderful stories", "a basket of sweet apples",
                        "a tiny golden bell", "a garden full of flowers"]))
    s.topics = s.thing_topics + ["a treasure"]
    s.wishes = ["who found a treasure", f"who found {s.thing_topics[1]}"]
    open_story(s)
    s.paragraph()
    s.say("One {time}, {h} found {a_thing} {spot}.",
          "{H} {was} playing {at} when {he} saw {a_thing} {spot}.", "{Spot}, there was {a_thing}.")
    s.say('"What is this?" said {h}.', '"This must be part of a treasure," said {h}.',
          "{H} picked it up and looked at it.")
    s.say("{H} showed {the_thing} to {f_intro}.",
          "{He} ran to {f_intro} and showed {fhim} {the_thing}.")
    s.say('"It belongs to the old treasure of {place}," said {f}.',
          '"I have heard about it," said {f}. "It leads to a treasure."')
    s.say('"Let us find the treasure!" said {h}.',
          '"Will you come with {me}?" asked {h}. "Yes!" said {f}.')
    s.say("They walked over a hill and across a bridge.",
          "They went past a tall tree and over a little stream.",
          "The way was long, but they did not give up.")
    s.say("It got dark, and {h} {was} a little afraid, but {f} stayed close.",
          "Once they lost the way, but {f} remembered the right path.", chance=0.6)
    s.say("At last they came to a small door in a rock.",
          "At last they came to a big stone with a star on it.",
          "Finally, they stood in front of an old door.")
    s.say("{H} pushed as hard as {he} could, and it moved.", "They pushed together, and it opened.")
    s.say("Behind it was {prize}!", "And there it was: {prize}!")
    s.say('"We found it!" shouted {h} and {f}.', '"We will share it with everybody," said {h}.',
          "{H} and {f} could not believe their eyes.")
    close_story(s, s.pick(["sharing makes every game better",
                           "good friends always help each other"]))


def make_gift(s):
    open_story(s)
    s.say("It was almost the birthday of {g}.", "{H} wanted to give {g} a present.")
    s.say('"What can {I} give to {my_g}?" thought {h}.', "But {h} had no money.")
    s.paragraph()
    s.say("{H} asked {f_intro} for help.",
          '{He} went to see {f_intro}. "Can you help {me}?" {he} asked.')
    s.say('"You could make something," said {f}.',
          '"The best presents are made by hand," said {f}.')
    s.say("So they went to {place} and looked for things to use.", "They went to {place}. {Sight}.")
    s.say("They found wood, paper and some string {spot}.",
          "{H} found some paint, and {f} found some string.")
    s.say("They worked all {time}.", "They cut and painted and glued.",
          "It was hard work, but {h} did not give up.")
    s.say("When it was done, it was {a_thing}.", "In the end, they had made {a_thing}!")
    s.say("{H} gave {the_thing} to {g}.", "The next day, {h} put {the_thing} on the table for {g}.")
    s.say('{G} looked at {the_thing}, and {ghis} eyes were bright. "Did you make this for me?" '
          '{ghe} asked.', '"This is the nicest {thing} I ever had," said {g}.')
    s.say('"{I} made it for you," said {h}. "{F} helped {me}."', "{H} {was} {glad}.")
    close_story(s, "being kind is a kind of magic")


def surprise(s):
    s.topics = s.thing_topics + ["a birthday", "a birthday party", "a surprise"]
    open_story(s)
    s.say("It was {his} birthday, but nobody said a word about it.",
          "Today was {his} birthday, and {he} {was} very excited.")
    s.paragraph()
    s.say('{H} went to see {f_intro}. "Do you know what day it is?" {he} asked.',
          'First, {h} met {f_intro}. "Today is a special day," said {h}.')
    s.say('"I am sorry, I have no time today," said {f}, and {fhe} hurried away.',
          '"I am very busy," said {f}, and {fhe} ran off.',
          '"It is just a {weather} day," said {f} and walked away.')
    s.say("{H} went to find {g}, but nobody was there.", "{G} was not at home.",
          "Then {he} looked for {g}, but the house was empty.")
    s.say('"Nobody remembers {my} birthday," said {h}. {He} {was} {sad}.',
          "{H} thought that everybody had forgotten, and {he} {was} {sad}.")
    s.say("Slowly, {he} walked to {place}.", "{He} sat down alone {at}.",
          "~With a heavy heart, {he} went to {place}.")
    s.say('Suddenly, {f} jumped out from behind a tree. "Surprise!" {fhe} shouted.',
          'Then {he} saw lights and heard music. "Surprise!" shouted {f} and {g}.')
    s.say("There was a big cake, and all {his} friends were there.",
          "There were balloons, a cake and all {his} friends.")
    s.say('"Did you think we forgot?" said {f} with a laugh.', '"Happy birthday!" they all sang.')
    s.say("{F} gave {him} {a_thing}.", "{H} opened a box. Inside was {a_thing}!",
          "There was a present, too. It was {a_thing}.")
    s.say('"This is just what {I} wanted!" said {h}.', '"What a wonderful {thing}!" said {h}.',
          "{H} hugged everybody.")
    close_story(s, "good friends always help each other")
