"""Plots about somebody, and the list of all plots and their weights (slots: story_parts.py)."""
import story_words as words
from story_parts import close_story, open_story
from story_plots_things import (broken_thing, lost_thing, make_gift, share_thing, stuck_in_tree,
                                surprise, tell_truth, treasure)


def afraid(s):
    fear = s.pick(sorted(words.FEARS))
    s.set(fear=fear, scary=words.FEARS[fear])
    s.topics = [fear]
    s.wishes = [f"who {s.slots['was']} afraid of {fear}", "who learned to be brave"]
    if s.rng.random() < 0.2:
        s.say("{H} {was} afraid of {fear}.")
        s.say("{He} lived {home}.",
              "{He} {was} very {size}, and {he} did not like to talk about it.",
              "{He} did not tell anybody.")
    else:
        open_story(s)
        s.say("{H} {was} afraid of {fear}.",
              "But there was one problem. {H} {was} afraid of {fear}.",
              "{H} {was} not afraid of many things, but {he} {was} afraid of {fear}.")
    s.paragraph()
    s.say("One {time}, it happened. {Scary}.", "{Scary}.",
          "Then, one {weather} {time}, {h} got a fright. {Scary}.")
    s.say("{H} wanted to run away.", "{H} hid under a blanket.", '"{I} {am} scared," said {h}.',
          "{H} began to shake.")
    s.say("{F_intro} came and sat down beside {him}.", "{F_intro} heard {him} and came closer.")
    s.say('"I was afraid of {fear} too, when I was small," said {f}.',
          '"Everybody is afraid sometimes," said {f}.',
          '"It is all right to be afraid," said {f} softly.')
    s.say('"What did you do?" asked {h}.', '"Really? What did you do?" asked {h}.',
          '"And how did you become brave?" asked {h}.')
    s.say('"I took a deep breath and counted to three," said {f}. "Then I was not so scared."',
          '"I sang a little song until I felt brave," said {f}. "Do you want to sing with me?"',
          '"I held the hand of a friend," said {f}. "You can hold mine."')
    s.say("So they tried it together.", "{H} took a deep breath and tried it.",
          "{H} looked at {f} and nodded.")
    s.say("Slowly, {h} felt better.", "After a while, {h} did not feel so scared.",
          "It worked! {H} felt brave.")
    s.say('{G} came and said, "You were very brave today."',
          "Now {h} {was} not afraid of {fear} anymore.",
          '"Look at {me}!" said {h}. "{I} {am} brave!"')
    close_story(s, "being brave means trying even when you are afraid")


def lost_baby(s):
    baby = s.pick([a for a in words.ANIMALS if a != s.kind and a not in s.slots["f"]])
    look = s.pick(["little", "tiny", "baby", "small", "lost"])
    s.set(a_baby=f"a {look} {baby}", the_baby=f"the {look} {baby}", animal=baby)
    s.topics = [f"a {look} {baby}", "a" + ("n" if baby[0] in "aeio" else "") + f" {baby}"]
    s.wishes = [f"who found {s.topics[0]}", f"who helped {s.topics[0]}"]
    open_story(s)
    s.paragraph()
    s.say("{Spot}, {h} found {a_baby}.",
          "One {weather} {time}, {h} heard a small cry. {Spot} sat {a_baby}.",
          "While {h} {was} walking {at}, {he} saw {a_baby} {spot}.")
    s.say("It was all alone, and it looked {sad}.", "It was cold and hungry.", chance=0.7)
    s.say('"Hello, little one. Are you lost?" asked {h}.', '"Are you all alone?" asked {h}.')
    s.say('"Yes. I want my mother," said {the_baby}.',
          '{The_baby} nodded. "I cannot find my mother," it said.')
    s.say('"{I} will help you," said {h}.', '"Do not cry. {I} will bring you home," said {h}.')
    s.say("{H} gave {the_baby} some water and a piece of bread.",
          "{H} put a warm scarf around {the_baby}.", chance=0.5)
    s.say('They asked {f_intro}, "Have you seen a big {animal}?"',
          'On the way they met {f_intro}. "Do you know where the mother of {the_baby} is?" asked '
          '{h}.')
    s.say('"Yes," said {f}. "I saw one {other_spot}."',
          '"I think so," said {f}. "Come with me. I will show you the way."')
    s.say("So they all walked there together.",
          "They walked and walked until they came to the right place.",
          "They hurried there as fast as they could.")
    s.say("There was the mother! She had been looking everywhere.",
          "A big {animal} came running. It was the mother!")
    s.say("{The_baby} ran to her, and she held it close.",
          '"Mama!" cried {the_baby}, and it ran to her.')
    s.say('"Thank you for helping my little one," said the mother.',
          "The mother thanked {h} and {f}.", '"You are very kind," the mother said to {h}.')
    close_story(s, "being kind is a kind of magic")


def cooking(s):
    food = s.pick(words.FOODS)
    first, second = s.rng.sample(words.FOOD_NEEDS[food], 2)
    a_food = food if food in ("pancakes", "cookies", "soup", "bread", "jam") else f"a {food}"
    it = "them" if food in ("pancakes", "cookies") else "it"
    s.set(food=food, a_food=a_food, first=first, second=second, it=it,
          food_was="were" if it == "them" else "was",
          this_is="these are" if it == "them" else "this is")
    s.topics = [a_food, a_food]
    s.wishes = [f"who made {a_food}", f"who wanted to make {a_food}"]
    open_story(s)
    s.say("{H} wanted to make {a_food} for {g}.",
          "It was almost time for a party, and {h} wanted to make {a_food}.",
          '"Today {I} will make {a_food}," said {h}.')
    s.paragraph()
    s.say("{He} looked in the kitchen, but {first} and {second} were missing.",
          "But {he} needed {first} and {second}.",
          "First {he} needed {first}. Then {he} needed {second}.")
    s.say("So {h} took a basket and went to {place}.", "{H} walked to {place} to look for {first}.")
    s.say("There {he} found {first} {spot}.", "A kind farmer gave {him} some {first}.")
    s.say("On the way home {he} met {f_intro}.", "Then {h} met {f_intro}.",
          "Not far away {he} saw {f_intro}.")
    s.say("{H} asked {f} for {second}.", '"Do you have any {second}?" {h} asked {f}.')
    s.say('"Of course," said {f}. "May I help you with the {food}?"',
          '"Yes, I have some," said {f}. "Can I come and help you?"')
    s.say('"Yes, please!" said {h}.', '"That would be fun," said {h}.')
    s.say("Together they mixed {first} and {second} in a big bowl.",
          "They washed their hands, and then they stirred and stirred.",
          "{H} stirred the bowl, and {f} read the recipe.")
    s.say("There was a little mess, but they only laughed.",
          "Soon the whole house smelled wonderful.", "They waited and waited.")
    s.say("At last the {food} {food_was} ready.",
          "When the {food} {food_was} ready, they put {it} on the table.")
    s.say('{G} tasted {it} and smiled. "{This_is} the best {food} in the world," {ghe} said.',
          "Everybody had some, and there was not a crumb left.", '"{This_is} wonderful!" said {g}.')
    close_story(s, s.pick(["good friends always help each other",
                           "sharing makes every game better"]))


def growing(s):
    seed = s.pick(words.SEEDS)
    s.set(seed=seed, a_seed=("an " if seed[0] in "aeiou" else "a ") + seed)
    s.topics = [f"a {seed} seed" if seed[0] not in "aeiou" else f"an {seed} seed", "a seed"]
    open_story(s)
    s.paragraph()
    s.say("One {time}, {g} gave {h} a tiny seed.", "One day, {h} found a little seed {spot}.",
          "{F_intro} gave {h} a small brown seed.")
    s.say('"What will it be?" asked {h}.', '"Such a small thing," said {h}.', chance=0.6)
    s.say("{H} planted the seed in the ground and gave it some water.",
          "{He} made a hole, put the seed into it, and covered it with earth.")
    s.say("Every day {he} gave it water, but nothing happened.",
          "The next day {he} looked, but there was nothing to see.",
          "One day went by, and then another. Nothing grew.")
    s.say('"It will never grow," said {h}.', "{H} {was} {sad}.",
          '"Why does it not grow?" asked {h}.')
    s.say('"You must wait," said {g}. "A seed needs water, sun and time."',
          '"Good things take time," said {g}.',
          '"Be patient," said {g}. "The seed is working under the ground."')
    s.say("So {h} waited. {He} gave it water and sang to it.",
          "So {h} gave the seed water every morning and waited.")
    s.say("Then, one {weather} morning, a green leaf came out of the ground.",
          "After many days, a tiny green leaf looked up at the sun.")
    s.say("It grew and grew, until it was {a_seed} plant, taller than {h}.",
          "The little plant grew bigger every day. It was {a_seed} plant!")
    s.say('"Look! It is beautiful!" said {h}.', "{H} danced around the plant.", "{H} {was} {glad}.")
    s.say("{H} kept some seeds to plant next year.",
          "When the time came, {h} shared it with all {his} friends.", chance=0.7)
    s.set(f=s.slots["g"])
    close_story(s, "a little patience goes a long way")


def race(s):
    open_story(s)
    s.say("{H} {was} not very fast.", "{H} liked to run, but {he} {was} slow.",
          "Everybody said that {h} {was} too slow for a race.")
    s.topics = ["a race"] + s.friend_topics
    s.paragraph()
    s.say("One day there was a big race {at}.",
          "On a {weather} {time}, there was a race to {place} and back.")
    s.say('{F_intro} was the fastest of all. "I will win," {fhe} said.',
          '"You can never win against me," said {f_intro}.')
    s.say('"{I} will try {my} best," said {h}.', "{H} did not answer, but {he} wanted to try.")
    s.say("One, two, three, go! {F} ran ahead, and soon {fhe} was far away.",
          "The race began. {F} ran like the wind, and {h} came after {fhim}.")
    s.say("{F} was so sure that {fhe} took a nap {spot}.",
          "But {f} did not look at the path and fell over a stone.",
          "Then {f} stopped to eat some berries.")
    s.say("{H} went on, step by step.", "{H} did not stop. {He} ran on and on.")
    s.say("When {h} saw {f}, {he} stopped to ask if all was well.", "{H} passed {f} and waved.",
          chance=0.5)
    s.say("At the end, {h} came first, and everybody cheered.",
          "Then {h} crossed the line, and {he} had won!")
    s.say('"You were better than me today," said {f}.',
          '"Well done," said {f}. "I will never laugh at you again."',
          '{F} came and said, "I am sorry that I laughed at you."')
    s.say("{H} got {a_thing} as a prize.", "The prize was {a_thing}.", chance=0.6)
    s.say('"Let us run together next time," said {h}.', '"It was fun to run with you," said {h}.')
    close_story(s, "a little patience goes a long way")


def rainy_day(s):
    open_story(s)
    s.topics = ["a rainy day", "the rain"]
    s.say("Then it began to rain.", "But dark clouds came, and it started to rain.",
          "Soon big drops of rain fell from the sky.")
    s.say("{H} {was} {sad}, because {he} could not go to {place}.",
          '"{I} wanted to play {at}," said {h}.', '"Now {I} cannot go out," said {h}.')
    s.paragraph()
    s.say('{G} said, "We can have fun inside, too."',
          '{G} smiled. "Rain is good for games at home," {ghe} said.')
    s.say("There was a knock at the door. It was {f_intro}, all wet.",
          "Then {f_intro} knocked at the window.")
    s.say('"Come in and get dry," said {h}.', "{H} gave {fhim} a warm towel.")
    s.say("They built a fort out of pillows and blankets.",
          "They made a big tent out of a blanket and two chairs.")
    s.say("Inside, {h} had {a_thing}, and it became part of their game.",
          "{F} found {a_thing}, and they pretended it was magic.",
          "They took {a_thing} and played that they were on a ship.")
    s.say("They told stories and drank warm milk.", "{G} brought warm milk and cookies.",
          "The rain drummed on the roof, but inside it was warm.")
    s.say("Suddenly the rain stopped, and the sun came out.",
          "After a while, it was quiet. The rain was over.")
    s.say('"Look! A rainbow!" shouted {f}.', "There was a big rainbow over {place}.")
    s.say("They ran outside and jumped in the puddles.",
          "They ran to {place} and splashed in the puddles.")
    close_story(s)


def night_sky(s):
    s.topics = ["the moon", "a star", "the stars"]
    wish = s.pick(["touch the moon", "catch a star", "see a falling star", "talk to the moon"])
    s.set(wish=wish)
    s.wishes = [f"who wanted to {wish}"]
    open_story(s)
    s.say("Every night {h} looked at the sky. {He} wanted to {wish}.",
          "More than anything, {h} wanted to {wish}.",
          "{H} had one big wish. {He} wanted to {wish}.")
    s.paragraph()
    s.say("One clear night, {h} went out to {place}.",
          "One night, {h} climbed up a tree to be closer to the sky.")
    s.say("{He} reached up as high as {he} could, but the sky was too far away.",
          "{He} waited and waited, but nothing happened.")
    s.say('"What are you doing?" asked {f_intro}.',
          '{F_intro} came by. "Why are you still awake?" {fhe} asked.')
    s.say('"{I} want to {wish}," said {h}.', "{H} told {f} about {his} wish.")
    s.say('{F} did not laugh. "Come with me," {fhe} said.',
          '"I know a place where you can do that," said {f}.')
    s.say("{F} took {him} to the lake, where the water was still.",
          "They walked to a quiet pond together.")
    s.say("The moon and all the stars were shining in the water.",
          "In the water they saw the moon and a thousand stars.")
    s.say("{H} touched the water, and the stars danced.", '"It is beautiful," said {h} softly.')
    s.say("Just then, a bright star fell across the sky.", "A small star winked at {him}.",
          chance=0.6)
    s.say('"Sometimes a wish comes true in another way," said {f}.',
          '"Thank you," said {h}. "This is the best night ever."')
    close_story(s)


def new_skill(s):
    skill = s.pick(["fly", "climb trees", "cook", "draw", "write", "sail a boat", "play the flute",
                    "tie a knot", "swim", "dance", "sing", "fly a kite", "ride a bike", "whistle",
                    "paint", "read", "skate", "juggle", "play the drum"])
    s.set(skill=skill)
    s.topics = [f"learning to {skill}"]
    s.wishes = [f"who wanted to {skill}", f"who learned to {skill}", f"who could not {skill}"]
    open_story(s)
    s.say("{H} wanted to learn to {skill}.", "More than anything, {h} wanted to {skill}.",
          "All {his} friends could {skill}, but {h} could not.")
    s.paragraph()
    s.say("{He} tried it {at}, but it went all wrong.", "The first time, it was a mess.",
          "{He} tried and tried, but {he} could not do it.")
    s.say("Everybody laughed, and {h} {was} {sad}.", '"{I} will never learn it," said {h}.',
          "{H} wanted to give up.")
    s.say('{F_intro} saw it and said, "I can teach you."',
          'Then {f_intro} came by. "I can show you how to {skill}," {fhe} said.')
    s.say('"Is it hard?" asked {h}.', '"Really? Would you do that?" asked {h}.')
    s.say('"It is hard at first," said {f}, "but it gets easier every day."',
          '"You only have to practice," said {f}.')
    s.say("Every {time}, they met {at} and practiced.",
          "So they practiced every day, in sun and in rain.",
          "On the first day, it was hard. On the second day, it was a little better.")
    s.say("Sometimes {h} made mistakes, but {f} was very patient.",
          "When {h} made a mistake, {f} only smiled.", chance=0.7)
    s.say("Then, one {weather} {time}, {h} could {skill}!",
          "And one day, all at once, {he} could do it!")
    s.say('"You did it!" shouted {f}.', "{G} clapped and cheered.",
          '"Look, {I} can {skill}!" said {h}.')
    s.say("{H} {was} so {glad} that {he} could not stop.",
          "{H} gave {f} {a_thing} to say thank you.")
    close_story(s, "a little patience goes a long way")


def new_friend(s):
    s.topics = s.friend_topics + ["a new friend"]
    if "friend" in s.slots["f_intro"]:  # a child: not a friend yet
        child = "girl" if s.slots["fhe"] == "she" else "boy"
        s.set(f_intro=f"a {child} named {s.slots['f']}")
    open_story(s)
    s.say("{H} had nobody to play with.", "{H} {was} often alone.", "{H} wished for a friend.")
    s.paragraph()
    s.say("One {time}, {h} saw {f_intro} {at}.", "One {weather} day, {h} met {f_intro} {at}.")
    s.say("{F} sat {spot} and looked {sad}.", "{F} was sitting {spot}, all alone.")
    s.say('{H} {was} shy, but {he} said, "Hello. Do you want to play?"',
          '"Hello," said {h}. "Are you alone, too?"')
    s.say('{F} looked up. "Yes," {fhe} said. "I am new here."',
          '"Yes," said {f}. "I do not know anybody here."')
    s.say('"{I} can show you {place}," said {h}.',
          '"Come, {I} will show you everything," said {h}.')
    s.say("{H} showed {fhim} {a_thing}, and {f} liked it very much.",
          '{H} took out {a_thing}. "We can play with this," {he} said.')
    s.say("They played games and told each other stories.", "They ran and jumped and laughed.",
          "They played with {the_thing} for hours.")
    s.say('When it got late, {f} asked, "Will you come back tomorrow?"',
          'Then it was time to go home. "Can we play again?" asked {f}.')
    s.say('"Of course," said {h}. "We are friends now."', '"Yes, every day!" said {h}.')
    s.say("{G} was {glad} to hear about it.", "At home, {h} told {g} all about {f}.")
    close_story(s, "being kind is a kind of magic")


PLOTS = [(lost_thing, 4), (stuck_in_tree, 2), (broken_thing, 2), (share_thing, 3), (afraid, 2),
         (lost_baby, 2), (cooking, 2), (growing, 1), (surprise, 2), (tell_truth, 2), (treasure, 2),
         (race, 1), (rainy_day, 1), (night_sky, 1), (new_skill, 2), (new_friend, 2), (make_gift, 2)]


def tell(story):
    """Chooses a plot and tells it. Leaves in story.topics what the story is about."""
    plots, weights = zip(*PLOTS)
    story.rng.choices(plots, weights)[0](story)
    if not story.topics:
        story.topics = story.thing_topics + story.friend_topics[:1]
