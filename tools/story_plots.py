"""The plots of the story grammar: each adds sentences to a Story (see make_stories.py).

A sentence is one of several ways to say the same thing, with slots in braces: {h} the hero, {he},
{him}, {his} and {self} the hero's pronouns ({I}, {my}, {me}, {am} when the hero speaks, {was} in
past tense), {f} the friend, {g} somebody older, {the_thing}, {at} the place. A slot that begins with
a capital letter begins a sentence.
"""
import story_words as words


def open_story(s):
    """Who the hero is. Many ways to begin, so that many prompts feel familiar."""
    draw = s.rng.random()
    if draw < 0.06:
        s.say("~{Intro} lived {home}.", "~{Intro} was walking {at}.", "~{Intro} loved to play {at}.",
              "{H} {was} {intro}. {He} lived {home}.", "~{Intro} woke up on a {weather} {time}.")
    elif draw < 0.34:
        s.say("Once upon a time, there {was} {intro}.", "Once upon a time, {intro} lived {home}.",
              "Once upon a time there {was} {intro}.", "Once upon a time, in a land far away, there {was} {intro}.",
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


def close_story(s, moral=None):
    """The ending, with a moral now and then."""
    if s.rng.random() < 0.35:
        s.paragraph()
    s.say("{H} went home with a big smile.", "That night, {h} fell asleep with a smile.",
          "{H} and {f} laughed and played until the sun went down.",
          "From that day on, {h} and {f} were the best of friends.",
          "It was the best day ever.", "And {h} {was} {glad}.",
          "{H} never forgot that day.", "When the stars came out, {h} {was} still smiling.",
          "They danced and sang all the way home.")
    if moral and s.rng.random() < 0.6:
        s.set(moral=moral)
        s.say("{H} had learned that {moral}.", "Now {he} knew that {moral}.",
              "And so {h} learned that {moral}.", "\"Remember,\" said {g}, \"{moral}.\"")
    s.say("The end.", "And they all lived happily ever after.", chance=0.25)


def meet_friend(s, crying=True):
    """The friend comes in and hears what is wrong."""
    s.say("Just then, {f_intro} came along.", "Then {f_intro} came by.",
          "Soon {h} met {f_intro}.", "Along came {f_intro}.", "{F_intro} saw {him} and came closer.")
    if crying:
        s.say("\"Why are you so sad?\" asked {f}.", "\"What is wrong?\" asked {f}.",
              "\"Can I help you?\" asked {f} in a soft voice.", "{F} asked, \"What happened?\"")


def lost_thing(s):
    s.wishes = [f"who lost {thing}" for thing in s.thing_topics]
    if s.rng.random() < 0.12:
        s.say("\"Where is {my} {thing}?\" asked {h}.", "\"{I} can not find {my} {thing}!\" said {h}.",
              "\"Have you seen {my} {thing}?\" asked {h}.")
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
    s.say("{H} {was} {sad}, and {he} began to cry.", "\"Where is {my} {thing}?\" cried {h}.",
          "{He} sat down and felt {sad}.", "{H} {was} {sad}.")
    meet_friend(s)
    s.say("\"{I} lost {my} {look_thing},\" said {h}.", "\"{My} {thing} is gone,\" said {h}. \"{I} looked everywhere.\"",
          "{H} told {f} about {the_thing}.")
    s.say("\"Do not worry,\" said {f}. \"We will look for it together.\"",
          "\"I will help you find it,\" said {f}.", "\"Let us look together,\" said {f}. \"Four eyes see more than two.\"")
    s.say("They searched all over {place}.", "They walked around {place} and looked at every corner.",
          "{F} looked high, and {h} looked low.", chance=0.7)
    s.say("At last, {f} looked {spot}. There was {the_thing}!",
          "Then {h} saw something {spot}. It was {the_thing}!",
          "Suddenly {f} called, \"Look! Something is {spot}!\" It was {the_thing}.")
    s.say("{H} hugged {f}. \"Thank you!\" {he} said.", "\"Thank you so much!\" said {h}.",
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
    s.say("\"Oh no! {My} {thing} is stuck,\" said {h}.", "{H} {was} {sad}.", "\"How can {I} get it down?\" said {h}.")
    meet_friend(s, crying=False)
    s.say("\"{My} {thing} is stuck in the tree,\" said {h}.", "{H} pointed up at {the_thing}.")
    s.say("{F} had an idea. \"I will get a long ladder,\" {fhe} said.",
          "\"Let me try,\" said {f}. {Fhe} had a very long stick.",
          "\"We can do it together,\" said {f}. \"You can stand on my shoulders.\"",
          "{F} thought for a moment. \"If we shake the tree, it will fall,\" {fhe} said.")
    s.say("They tried once. They tried twice. Then {the_thing} came down!",
          "It took a long time, but at last {the_thing} fell softly to the ground.",
          "Very carefully, they got {the_thing} down from the tree.")
    s.say("\"Hooray!\" shouted {h}. \"Thank you for your help!\"", "\"You did it!\" said {h}.",
          "{H} thanked {f} again and again.")
    s.say("After that, they played with {the_thing} together.", "\"Now it is your turn to play with it,\" said {h}.",
          "{H} let {f} play with {the_thing} too.")
    close_story(s, s.pick(["good friends always help each other", "even small friends can do big things"]))


def broken_thing(s):
    s.set_thing(s.pick(words.BREAKABLE))
    s.wishes = [f"who broke {thing}" for thing in s.thing_topics]
    open_with_thing(s)
    s.paragraph()
    s.say("One {time}, {h} ran too fast and dropped {the_thing}.",
          "One day, {the_thing} fell down and broke.", "While {h} {was} playing, {the_thing} fell on a stone.")
    s.say("Crack! It broke into two pieces.", "There was a loud crack, and a piece came off.", "Now it was broken.")
    s.say("{H} looked at the pieces and {was} {sad}.", "\"Oh no,\" said {h}. \"{My} {thing} is broken.\"",
          "~A tear rolled down {his} cheek.")
    s.say("{H} took the pieces to {g}.", "{He} carried the pieces home and showed them to {g}.",
          "{G} heard {him} and came to see what was wrong.")
    s.say("\"Do not be sad,\" said {g}. \"We can fix it.\"",
          "{G} looked at the pieces and smiled. \"I think we can mend this,\" {ghe} said.",
          "\"Things can break,\" said {g}, \"but many things can be fixed.\"")
    s.say("{G} brought some glue and a piece of string.", "They found some glue and a little brush.",
          "{G} held the pieces, and {h} put on the glue.")
    s.say("They worked slowly and carefully.", "It took all {time}, but they did not give up.",
          "They waited until the glue was dry.")
    s.say("At last, {the_thing} was whole again.", "Soon {the_thing} looked as good as new.",
          "When they were done, {the_thing} was even stronger than before.")
    s.say("\"Thank you, thank you!\" said {h}.", "{H} gave {g} a big hug.", "{H} {was} {glad}.")
    s.say("Later, {h} showed {the_thing} to {f_intro}.", "The next day, {h} played with {f_intro}, and {he} {was} very careful with {the_thing}.")
    close_story(s, "a little patience goes a long way")


def share_thing(s):
    s.wishes = ["who did not want to share", f"who did not want to share {s.thing_topics[0]}"]
    open_with_thing(s)
    s.paragraph()
    s.say("One day, {f_intro} came to play.", "One {time}, {h} met {f_intro} {at}.")
    s.say("\"May I play with your {thing}?\" asked {f}.", "\"What a nice {thing}!\" said {f}. \"Can I try it?\"",
          "{F} looked at {the_thing}. \"Can I have a turn?\" {fhe} asked.")
    s.say("\"No,\" said {h}. \"It is {mine}.\"",
          "~{H} shook {his} head and held {the_thing} tight.", "{H} held {the_thing} tight and said no.",
          "\"No! This is {my} {thing},\" said {h}.")
    s.say("{F} was {sad} and walked away.", "{F} looked down at the ground and said nothing.", "{F} went away without a word.")
    s.say("{H} played alone, but it was not fun.", "Now {h} {was} alone with {the_thing}, and it felt very quiet.",
          "{H} played for a while, but {he} felt bad.")
    s.say("{G} saw it and said, \"A {thing} is more fun with a friend.\"",
          "{H} thought about {f}. It was not nice to say no.", "{H} remembered how {sad} {f} had looked.")
    s.say("So {h} ran after {f}. \"{I} {am} sorry,\" {he} said. \"Let us play together.\"",
          "{H} found {f} {spot}. \"Please come back,\" {he} said. \"You can have the first turn.\"")
    s.say("{F} smiled, and they took turns with {the_thing}.", "{F} was {glad}, and they played with {the_thing} all {time}.",
          "They played with {the_thing} until it was dark.")
    close_story(s, "sharing makes every game better")


def afraid(s):
    fear = s.pick(sorted(words.FEARS))
    s.set(fear=fear, scary=words.FEARS[fear])
    s.topics = [fear]
    s.wishes = [f"who {s.slots['was']} afraid of {fear}", f"who learned to be brave"]
    if s.rng.random() < 0.2:
        s.say("{H} {was} afraid of {fear}.")
        s.say("{He} lived {home}.", "{He} {was} very {size}, and {he} did not like to talk about it.",
              "{He} did not tell anybody.")
    else:
        open_story(s)
        s.say("{H} {was} afraid of {fear}.", "But there was one problem. {H} {was} afraid of {fear}.",
              "{H} {was} not afraid of many things, but {he} {was} afraid of {fear}.")
    s.paragraph()
    s.say("One {time}, it happened. {Scary}.", "{Scary}.", "Then, one {weather} {time}, {h} got a fright. {Scary}.")
    s.say("{H} wanted to run away.", "{H} hid under a blanket.", "\"{I} {am} scared,\" said {h}.",
          "{H} began to shake.")
    s.say("{F_intro} came and sat down beside {him}.", "{F_intro} heard {him} and came closer.")
    s.say("\"I was afraid of {fear} too, when I was small,\" said {f}.",
          "\"Everybody is afraid sometimes,\" said {f}.", "\"It is all right to be afraid,\" said {f} softly.")
    s.say("\"What did you do?\" asked {h}.", "\"Really? What did you do?\" asked {h}.",
          "\"And how did you become brave?\" asked {h}.")
    s.say("\"I took a deep breath and counted to three,\" said {f}. \"Then I was not so scared.\"",
          "\"I sang a little song until I felt brave,\" said {f}. \"Do you want to sing with me?\"",
          "\"I held the hand of a friend,\" said {f}. \"You can hold mine.\"")
    s.say("So they tried it together.", "{H} took a deep breath and tried it.", "{H} looked at {f} and nodded.")
    s.say("Slowly, {h} felt better.", "After a while, {h} did not feel so scared.", "It worked! {H} felt brave.")
    s.say("{G} came and said, \"You were very brave today.\"",
          "Now {h} {was} not afraid of {fear} anymore.", "\"Look at {me}!\" said {h}. \"{I} {am} brave!\"")
    close_story(s, "being brave means trying even when you are afraid")


def lost_baby(s):
    baby = s.pick([a for a in words.ANIMALS if a != s.kind and a not in s.slots["f"]])
    look = s.pick(["little", "tiny", "baby", "small", "lost"])
    s.set(baby=f"{look} {baby}", a_baby=f"a {look} {baby}", animal=baby, the_baby=f"the {look} {baby}")
    s.topics = [f"a {look} {baby}", "a" + ("n" if baby[0] in "aeio" else "") + f" {baby}"]
    s.wishes = [f"who found {s.topics[0]}", f"who helped {s.topics[0]}"]
    open_story(s)
    s.paragraph()
    s.say("{Spot}, {h} found {a_baby}.", "One {weather} {time}, {h} heard a small cry. {Spot} sat {a_baby}.",
          "While {h} {was} walking {at}, {he} saw {a_baby} {spot}.")
    s.say("It was all alone, and it looked {sad}.", "It was cold and hungry.", chance=0.7)
    s.say("\"Hello, little one. Are you lost?\" asked {h}.", "\"Are you all alone?\" asked {h}.")
    s.say("\"Yes. I want my mother,\" said {the_baby}.", "{The_baby} nodded. \"I cannot find my mother,\" it said.")
    s.say("\"{I} will help you,\" said {h}.", "\"Do not cry. {I} will bring you home,\" said {h}.")
    s.say("{H} gave {the_baby} some water and a piece of bread.", "{H} put a warm scarf around {the_baby}.", chance=0.5)
    s.say("They asked {f_intro}, \"Have you seen a big {animal}?\"", "On the way they met {f_intro}. \"Do you know where the mother of {the_baby} is?\" asked {h}.")
    s.say("\"Yes,\" said {f}. \"I saw one {other_spot}.\"", "\"I think so,\" said {f}. \"Come with me. I will show you the way.\"")
    s.say("So they all walked there together.", "They walked and walked until they came to the right place.", "They hurried there as fast as they could.")
    s.say("There was the mother! She had been looking everywhere.", "A big {animal} came running. It was the mother!")
    s.say("{The_baby} ran to her, and she held it close.", "\"Mama!\" cried {the_baby}, and it ran to her.")
    s.say("\"Thank you for helping my little one,\" said the mother.", "The mother thanked {h} and {f}.", "\"You are very kind,\" the mother said to {h}.")
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
    s.say("{H} wanted to make {a_food} for {g}.", "It was almost time for a party, and {h} wanted to make {a_food}.",
          "\"Today {I} will make {a_food},\" said {h}.")
    s.paragraph()
    s.say("{He} looked in the kitchen, but {first} and {second} were missing.",
          "But {he} needed {first} and {second}.", "First {he} needed {first}. Then {he} needed {second}.")
    s.say("So {h} took a basket and went to {place}.", "{H} walked to {place} to look for {first}.")
    s.say("There {he} found {first} {spot}.", "A kind farmer gave {him} some {first}.")
    s.say("On the way home {he} met {f_intro}.", "Then {h} met {f_intro}.",
          "Not far away {he} saw {f_intro}.")
    s.say("{H} asked {f} for {second}.", "\"Do you have any {second}?\" {h} asked {f}.")
    s.say("\"Of course,\" said {f}. \"May I help you with the {food}?\"", "\"Yes, I have some,\" said {f}. \"Can I come and help you?\"")
    s.say("\"Yes, please!\" said {h}.", "\"That would be fun,\" said {h}.")
    s.say("Together they mixed {first} and {second} in a big bowl.", "They washed their hands, and then they stirred and stirred.",
          "{H} stirred the bowl, and {f} read the recipe.")
    s.say("There was a little mess, but they only laughed.", "Soon the whole house smelled wonderful.", "They waited and waited.")
    s.say("At last the {food} {food_was} ready.",
          "When the {food} {food_was} ready, they put {it} on the table.")
    s.say("{G} tasted {it} and smiled. \"{This_is} the best {food} in the world,\" {ghe} said.",
          "Everybody had some, and there was not a crumb left.", "\"{This_is} wonderful!\" said {g}.")
    close_story(s, s.pick(["good friends always help each other", "sharing makes every game better"]))


def growing(s):
    seed = s.pick(words.SEEDS)
    s.set(seed=seed, a_seed=("an " if seed[0] in "aeiou" else "a ") + seed)
    s.topics = [f"a {seed} seed" if seed[0] not in "aeiou" else f"an {seed} seed", "a seed"]
    open_story(s)
    s.paragraph()
    s.say("One {time}, {g} gave {h} a tiny seed.", "One day, {h} found a little seed {spot}.", "{F_intro} gave {h} a small brown seed.")
    s.say("\"What will it be?\" asked {h}.", "\"Such a small thing,\" said {h}.", chance=0.6)
    s.say("{H} planted the seed in the ground and gave it some water.", "{He} made a hole, put the seed into it, and covered it with earth.")
    s.say("Every day {he} gave it water, but nothing happened.", "The next day {he} looked, but there was nothing to see.", "One day went by, and then another. Nothing grew.")
    s.say("\"It will never grow,\" said {h}.", "{H} {was} {sad}.", "\"Why does it not grow?\" asked {h}.")
    s.say("\"You must wait,\" said {g}. \"A seed needs water, sun and time.\"", "\"Good things take time,\" said {g}.", "\"Be patient,\" said {g}. \"The seed is working under the ground.\"")
    s.say("So {h} waited. {He} gave it water and sang to it.", "So {h} gave the seed water every morning and waited.")
    s.say("Then, one {weather} morning, a green leaf came out of the ground.", "After many days, a tiny green leaf looked up at the sun.")
    s.say("It grew and grew, until it was {a_seed} plant, taller than {h}.", "The little plant grew bigger every day. It was {a_seed} plant!")
    s.say("\"Look! It is beautiful!\" said {h}.", "{H} danced around the plant.", "{H} {was} {glad}.")
    s.say("{H} kept some seeds to plant next year.", "When the time came, {h} shared it with all {his} friends.", chance=0.7)
    s.set(f=s.slots["g"])
    close_story(s, "a little patience goes a long way")


def surprise(s):
    s.topics = s.thing_topics + ["a birthday", "a birthday party", "a surprise"]
    open_story(s)
    s.say("It was {his} birthday, but nobody said a word about it.",
          "Today was {his} birthday, and {he} {was} very excited.")
    s.paragraph()
    s.say("{H} went to see {f_intro}. \"Do you know what day it is?\" {he} asked.",
          "First, {h} met {f_intro}. \"Today is a special day,\" said {h}.")
    s.say("\"I am sorry, I have no time today,\" said {f}, and {fhe} hurried away.", "\"I am very busy,\" said {f}, and {fhe} ran off.", "\"It is just a {weather} day,\" said {f} and walked away.")
    s.say("{H} went to find {g}, but nobody was there.", "{G} was not at home.", "Then {he} looked for {g}, but the house was empty.")
    s.say("\"Nobody remembers {my} birthday,\" said {h}. {He} {was} {sad}.", "{H} thought that everybody had forgotten, and {he} {was} {sad}.")
    s.say("Slowly, {he} walked to {place}.", "{He} sat down alone {at}.", "~With a heavy heart, {he} went to {place}.")
    s.say("Suddenly, {f} jumped out from behind a tree. \"Surprise!\" {fhe} shouted.",
          "Then {he} saw lights and heard music. \"Surprise!\" shouted {f} and {g}.")
    s.say("There was a big cake, and all {his} friends were there.", "There were balloons, a cake and all {his} friends.")
    s.say("\"Did you think we forgot?\" said {f} with a laugh.", "\"Happy birthday!\" they all sang.")
    s.say("{F} gave {him} {a_thing}.", "{H} opened a box. Inside was {a_thing}!", "There was a present, too. It was {a_thing}.")
    s.say("\"This is just what {I} wanted!\" said {h}.", "\"What a wonderful {thing}!\" said {h}.", "{H} hugged everybody.")
    close_story(s, "good friends always help each other")


def tell_truth(s):
    open_story(s)
    s.say("{F_intro} had {a_thing} and loved it very much.", "{F_intro} had {a_thing}. It was very special.")
    s.say("One day, {f} let {h} play with it.", "\"You may play with it,\" said {f}, \"but please be careful.\"")
    s.paragraph()
    s.say("But {h} {was} not careful, and {the_thing} fell into the mud.", "But {h} ran too fast. {He} fell, and {the_thing} broke.", "{H} played too wildly, and {the_thing} got a big crack.")
    s.say("\"Oh no! What will {f} say?\" said {h}.", "{H} {was} afraid that {f} would be angry.")
    s.say("{He} hid {the_thing} {spot} and ran home.", "{He} put {the_thing} {spot}, where nobody could see it.")
    s.say("Later, {f} asked, \"Where is my {thing}?\"", "In the evening, {f} came and asked, \"Have you seen my {thing}?\"")
    s.say("\"{I} do not know,\" said {h}. But {he} felt bad inside.", "{H} said nothing and looked at the floor.")
    s.say("That night, {h} could not sleep.", "{H} could not eat, and {he} could not play.", "{H} told {g} about it. \"You should tell the truth,\" said {g}.")
    s.say("The next morning, {he} went to {f} and told {fhim} everything.", "So {he} ran to {f}. \"It was {my} fault,\" {he} said. \"{I} {am} very sorry.\"")
    s.say("{F} was quiet for a moment. Then {fhe} smiled. \"Thank you for telling me the truth,\" {fhe} said.", "\"I am a little sad,\" said {f}, \"but I am glad that you told me.\"")
    s.say("Together they cleaned and fixed {the_thing}.", "They got {the_thing} and fixed it together.", "They made {the_thing} as good as new.")
    close_story(s, "it is always best to tell the truth")


def treasure(s):
    s.set_thing(s.pick(["map", "key", "letter", "box", "bottle", "compass"]), s.pick(["old", "golden", "small", "strange", "rusty"]))
    s.set(prize=s.pick(["a box full of shiny stones", "a hundred old coins", "a book full of wonderful stories", "a basket of sweet apples", "a tiny golden bell", "a garden full of flowers"]))
    s.topics = s.thing_topics + ["a treasure"]
    s.wishes = ["who found a treasure", f"who found {s.thing_topics[1]}"]
    open_story(s)
    s.paragraph()
    s.say("One {time}, {h} found {a_thing} {spot}.", "{H} {was} playing {at} when {he} saw {a_thing} {spot}.", "{Spot}, there was {a_thing}.")
    s.say("\"What is this?\" said {h}.", "\"This must be part of a treasure,\" said {h}.", "{H} picked it up and looked at it.")
    s.say("{H} showed {the_thing} to {f_intro}.", "{He} ran to {f_intro} and showed {fhim} {the_thing}.")
    s.say("\"It belongs to the old treasure of {place},\" said {f}.", "\"I have heard about it,\" said {f}. \"It leads to a treasure.\"")
    s.say("\"Let us find the treasure!\" said {h}.", "\"Will you come with {me}?\" asked {h}. \"Yes!\" said {f}.")
    s.say("They walked over a hill and across a bridge.", "They went past a tall tree and over a little stream.", "The way was long, but they did not give up.")
    s.say("It got dark, and {h} {was} a little afraid, but {f} stayed close.", "Once they lost the way, but {f} remembered the right path.", chance=0.6)
    s.say("At last they came to a small door in a rock.", "At last they came to a big stone with a star on it.", "Finally, they stood in front of an old door.")
    s.say("{H} pushed as hard as {he} could, and it moved.", "They pushed together, and it opened.")
    s.say("Behind it was {prize}!", "And there it was: {prize}!")
    s.say("\"We found it!\" shouted {h} and {f}.", "\"We will share it with everybody,\" said {h}.", "{H} and {f} could not believe their eyes.")
    close_story(s, s.pick(["sharing makes every game better", "good friends always help each other"]))


def race(s):
    open_story(s)
    s.say("{H} {was} not very fast.", "{H} liked to run, but {he} {was} slow.", "Everybody said that {h} {was} too slow for a race.")
    s.topics = ["a race"] + s.friend_topics
    s.paragraph()
    s.say("One day there was a big race {at}.", "On a {weather} {time}, there was a race to {place} and back.")
    s.say("{F_intro} was the fastest of all. \"I will win,\" {fhe} said.", "\"You can never win against me,\" said {f_intro}.")
    s.say("\"{I} will try {my} best,\" said {h}.", "{H} did not answer, but {he} wanted to try.")
    s.say("One, two, three, go! {F} ran ahead, and soon {fhe} was far away.", "The race began. {F} ran like the wind, and {h} came after {fhim}.")
    s.say("{F} was so sure that {fhe} took a nap {spot}.", "But {f} did not look at the path and fell over a stone.", "Then {f} stopped to eat some berries.")
    s.say("{H} went on, step by step.", "{H} did not stop. {He} ran on and on.")
    s.say("When {h} saw {f}, {he} stopped to ask if all was well.", "{H} passed {f} and waved.", chance=0.5)
    s.say("At the end, {h} came first, and everybody cheered.", "Then {h} crossed the line, and {he} had won!")
    s.say("\"You were better than me today,\" said {f}.", "\"Well done,\" said {f}. \"I will never laugh at you again.\"", "{F} came and said, \"I am sorry that I laughed at you.\"")
    s.say("{H} got {a_thing} as a prize.", "The prize was {a_thing}.", chance=0.6)
    s.say("\"Let us run together next time,\" said {h}.", "\"It was fun to run with you,\" said {h}.")
    close_story(s, "a little patience goes a long way")


def rainy_day(s):
    open_story(s)
    s.topics = ["a rainy day", "the rain"]
    s.say("Then it began to rain.", "But dark clouds came, and it started to rain.", "Soon big drops of rain fell from the sky.")
    s.say("{H} {was} {sad}, because {he} could not go to {place}.", "\"{I} wanted to play {at},\" said {h}.", "\"Now {I} cannot go out,\" said {h}.")
    s.paragraph()
    s.say("{G} said, \"We can have fun inside, too.\"", "{G} smiled. \"Rain is good for games at home,\" {ghe} said.")
    s.say("There was a knock at the door. It was {f_intro}, all wet.", "Then {f_intro} knocked at the window.")
    s.say("\"Come in and get dry,\" said {h}.", "{H} gave {fhim} a warm towel.")
    s.say("They built a fort out of pillows and blankets.", "They made a big tent out of a blanket and two chairs.")
    s.say("Inside, {h} had {a_thing}, and it became part of their game.", "{F} found {a_thing}, and they pretended it was magic.", "They took {a_thing} and played that they were on a ship.")
    s.say("They told stories and drank warm milk.", "{G} brought warm milk and cookies.", "The rain drummed on the roof, but inside it was warm.")
    s.say("Suddenly the rain stopped, and the sun came out.", "After a while, it was quiet. The rain was over.")
    s.say("\"Look! A rainbow!\" shouted {f}.", "There was a big rainbow over {place}.")
    s.say("They ran outside and jumped in the puddles.", "They ran to {place} and splashed in the puddles.")
    close_story(s)


def night_sky(s):
    s.topics = ["the moon", "a star", "the stars"]
    wish = s.pick(["touch the moon", "catch a star", "see a falling star", "talk to the moon"])
    s.set(wish=wish)
    s.wishes = [f"who wanted to {wish}"]
    open_story(s)
    s.say("Every night {h} looked at the sky. {He} wanted to {wish}.", "More than anything, {h} wanted to {wish}.", "{H} had one big wish. {He} wanted to {wish}.")
    s.paragraph()
    s.say("One clear night, {h} went out to {place}.", "One night, {h} climbed up a tree to be closer to the sky.")
    s.say("{He} reached up as high as {he} could, but the sky was too far away.", "{He} waited and waited, but nothing happened.")
    s.say("\"What are you doing?\" asked {f_intro}.", "{F_intro} came by. \"Why are you still awake?\" {fhe} asked.")
    s.say("\"{I} want to {wish},\" said {h}.", "{H} told {f} about {his} wish.")
    s.say("{F} did not laugh. \"Come with me,\" {fhe} said.", "\"I know a place where you can do that,\" said {f}.")
    s.say("{F} took {him} to the lake, where the water was still.", "They walked to a quiet pond together.")
    s.say("The moon and all the stars were shining in the water.", "In the water they saw the moon and a thousand stars.")
    s.say("{H} touched the water, and the stars danced.", "\"It is beautiful,\" said {h} softly.")
    s.say("Just then, a bright star fell across the sky.", "A small star winked at {him}.", chance=0.6)
    s.say("\"Sometimes a wish comes true in another way,\" said {f}.", "\"Thank you,\" said {h}. \"This is the best night ever.\"")
    close_story(s)


def new_skill(s):
    skill = s.pick(["fly", "climb trees", "cook", "draw", "write", "sail a boat", "play the flute", "tie a knot", "swim", "dance", "sing", "fly a kite", "ride a bike", "whistle", "paint", "read", "skate", "juggle", "play the drum"])
    s.set(skill=skill)
    s.topics = [f"learning to {skill}"]
    s.wishes = [f"who wanted to {skill}", f"who learned to {skill}", f"who could not {skill}"]
    open_story(s)
    s.say("{H} wanted to learn to {skill}.", "More than anything, {h} wanted to {skill}.", "All {his} friends could {skill}, but {h} could not.")
    s.paragraph()
    s.say("{He} tried it {at}, but it went all wrong.", "The first time, it was a mess.", "{He} tried and tried, but {he} could not do it.")
    s.say("Everybody laughed, and {h} {was} {sad}.", "\"{I} will never learn it,\" said {h}.", "{H} wanted to give up.")
    s.say("{F_intro} saw it and said, \"I can teach you.\"", "Then {f_intro} came by. \"I can show you how to {skill},\" {fhe} said.")
    s.say("\"Is it hard?\" asked {h}.", "\"Really? Would you do that?\" asked {h}.")
    s.say("\"It is hard at first,\" said {f}, \"but it gets easier every day.\"", "\"You only have to practice,\" said {f}.")
    s.say("Every {time}, they met {at} and practiced.", "So they practiced every day, in sun and in rain.", "On the first day, it was hard. On the second day, it was a little better.")
    s.say("Sometimes {h} made mistakes, but {f} was very patient.", "When {h} made a mistake, {f} only smiled.", chance=0.7)
    s.say("Then, one {weather} {time}, {h} could {skill}!", "And one day, all at once, {he} could do it!")
    s.say("\"You did it!\" shouted {f}.", "{G} clapped and cheered.", "\"Look, {I} can {skill}!\" said {h}.")
    s.say("{H} {was} so {glad} that {he} could not stop.", "{H} gave {f} {a_thing} to say thank you.")
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
    s.say("{H} {was} shy, but {he} said, \"Hello. Do you want to play?\"", "\"Hello,\" said {h}. \"Are you alone, too?\"")
    s.say("{F} looked up. \"Yes,\" {fhe} said. \"I am new here.\"", "\"Yes,\" said {f}. \"I do not know anybody here.\"")
    s.say("\"{I} can show you {place},\" said {h}.", "\"Come, {I} will show you everything,\" said {h}.")
    s.say("{H} showed {fhim} {a_thing}, and {f} liked it very much.", "{H} took out {a_thing}. \"We can play with this,\" {he} said.")
    s.say("They played games and told each other stories.", "They ran and jumped and laughed.", "They played with {the_thing} for hours.")
    s.say("When it got late, {f} asked, \"Will you come back tomorrow?\"", "Then it was time to go home. \"Can we play again?\" asked {f}.")
    s.say("\"Of course,\" said {h}. \"We are friends now.\"", "\"Yes, every day!\" said {h}.")
    s.say("{G} was {glad} to hear about it.", "At home, {h} told {g} all about {f}.")
    close_story(s, "being kind is a kind of magic")


def make_gift(s):
    open_story(s)
    s.say("It was almost the birthday of {g}.", "{H} wanted to give {g} a present.")
    s.say("\"What can {I} give to {my_g}?\" thought {h}.", "But {h} had no money.")
    s.paragraph()
    s.say("{H} asked {f_intro} for help.", "{He} went to see {f_intro}. \"Can you help {me}?\" {he} asked.")
    s.say("\"You could make something,\" said {f}.", "\"The best presents are made by hand,\" said {f}.")
    s.say("So they went to {place} and looked for things to use.", "They went to {place}. {Sight}.")
    s.say("They found wood, paper and some string {spot}.", "{H} found some paint, and {f} found some string.")
    s.say("They worked all {time}.", "They cut and painted and glued.", "It was hard work, but {h} did not give up.")
    s.say("When it was done, it was {a_thing}.", "In the end, they had made {a_thing}!")
    s.say("{H} gave {the_thing} to {g}.", "The next day, {h} put {the_thing} on the table for {g}.")
    s.say("{G} looked at {the_thing}, and {ghis} eyes were bright. \"Did you make this for me?\" {ghe} asked.", "\"This is the nicest {thing} I ever had,\" said {g}.")
    s.say("\"{I} made it for you,\" said {h}. \"{F} helped {me}.\"", "{H} {was} {glad}.")
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
