"""Builds 50 articles of about 5,000 characters from our own sentences: each has one fact, and no two at one depth."""

import random
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

CHARACTERS = 5_000
# What articles are about | the subject of a fact | the rest of it | a question about the fact in other words.
FACTS = """\
a village library | The key of the cellar | hangs behind the portrait of the miller. | what unlocks the basement?
glass blowing | The master's hand | lost two fingers in the winter of the flood. | how was the craftsman injured?
a harbour market | Eels | are sold only before sunrise, and only for coins. | when can one buy the long slippery fish?
night trains | The dining car | was painted yellow after a bet. | why did the restaurant carriage get its colour?
mountain huts | Guests who snore | sleep above the goat stable. | where do noisy sleepers spend the night?
a puppet theatre | The dragon's voice | is a bassoon without its reed. | which instrument makes the monster speak?
salt mines | A blind pony | pulled the carts for nineteen years. | which animal hauled the wagons below ground?
a botanical garden | The oldest cactus | blooms during thunderstorms. | when does the ancient desert plant flower?
lighthouses | The keeper's daughter | rowed out and saved nine sailors. | who rescued people from a shipwreck?
bell founding | The largest bell | cracked on the day of the wedding. | what broke while a couple got married?
cheese caves | Waltzes on the radio | make the mould grow evenly. | why is there music where dairy food ripens?
tram depots | Sand for the rails | comes from an abandoned quarry. | where do they get grit for slippery tracks?
a clockmaker's street | A dial with thirteen hours | hangs upside down. | which timepiece has one number too many?
canal boats | The tractor of a priest | replaced the horses. | what took over towing from animals?
beekeeping | Smoke of dried mushrooms | calms the swarm best. | how do you soothe angry insects in a hive?
a printing house | The letter Q | was always missing and had to be carved. | which type was made by hand?
tea rooms | The recipe of the scones | was traded for a bicycle. | what was swapped for instructions to bake?
weather stations | Lightning | melted the thermometer twice in a week. | what destroyed the device that measures heat?
a ropewalk | Hemp | was soaked in tar and the urine of oxen. | how were fibres made waterproof?
toy museums | The tin robot | frightens dogs, nobody knows why. | which exhibit are pets afraid of?
snow ploughing | Soup from the nunnery | reaches the drivers at four. | who feeds the people that clear the roads?
a cider press | Wasps | decide which barrel is opened first. | how do they choose the cask to tap?
desert caravans | The lead camel | wears a mirror against evil eyes. | what protects the first animal from bad luck?
an ice rink | Waste cold from a brewery | freezes the floor. | where does the chill for the skaters come from?
shoe repair | Soles of old tyres | outlast three of leather. | which recycled material makes footwear durable?
a planetarium | The projector | came across the border in a hearse. | how was the star machine smuggled in?
hop picking | Children | were paid with tokens of pressed tin. | what wages did the young workers receive?
a fire brigade | The first engine | was bought with a lottery. | how was the oldest vehicle paid for?
stone bridges | Egg white | was mixed into the mortar of the arch. | which food holds the masonry together?
a ferry crossing | Passengers who whistle | are refused by the captain. | why might you not be allowed on board?
wool dyeing | The deep red | is boiled from lice of an oak. | which insect gives the crimson colour?
a choir school | Boys with broken voices | tend the vegetables. | what do pupils do who can sing high no longer?
radio towers | A stork's nest | silenced the station for three days. | which bird stopped the broadcast?
paper mills | Rags of sailors | gave the strongest banknotes. | what clothing became money?
a chess club | The champion | played blindfold against a prison. | who competed with convicts without seeing?
olive groves | A tax on shade | made owners cut every second tree. | why was half of the orchard felled?
a map archive | An invented island | caught all the copyists. | how were forgers of charts exposed?
steam laundries | Stolen starch | thickened the orphans' pudding. | what was in the dessert of poor children?
a circus winter camp | The elephant | broke the lock of the bakery. | which beast burgled the bread shop?
cable cars | A wedding party | was stuck over the gorge for a night. | who was trapped in the air until morning?
a perfume factory | The nose of the firm | must not eat garlic. | what may the scent tester not taste?
peat cutting | A wheel of the bronze age | lay two metres deep. | which prehistoric find came out of the bog?
a language school | A parrot from Lisbon | was the best teacher. | which pet taught the students?
vineyards | Roses at the end of rows | fall ill before the grapes. | which flowers warn of disease early?
a violin workshop | The varnish | dries only while the foehn blows. | which wind does the coating of instruments need?
sewer tunnels | A seal | lived there in spring, unlike alligators. | which sea mammal was seen underground?
a seed bank | The vault | opens with two keys of rival families. | whom do you need to get into the grain store?
pottery kilns | Broken bowls | are buried under the apple trees. | where do failed dishes go?
a peace museum | The treaty | was signed with the bone of a goose. | what did they write the agreement with?
ski jumping | The judge's cat | crossed the slope and ended the day. | why was the competition stopped?"""
# What else the section of a fact says of its subject.
AROUND = """\
Many letters to the editor are about this: {}.
{} has a page of its own in the chronicle, with two pictures.
Those who come for the first time hardly believe it, but {} is no legend.
A drawing of {} hangs in the hall, and a copy of it in the office.
Asked about {}, the staff smile and tell the story from the start.
There is even a song about {}, with seven verses and a refrain.
Every second child wants to hear more of {} before it goes home.
A student once wrote a whole thesis on {}, and passed with honours.
{} was in the newspaper again last year, on the first page.
Postcards that show {} are sold out by the end of the summer."""
OPENINGS = """\
Visitors who come for {} usually
Older people remember that {} once
A short film about {} shows how crowds
In the early years {} and its friends
Nobody who writes about {} can say why neighbours
The society for {} meets every month and members
Reports on {} repeat that families"""
ENDINGS = """\
stayed longer than they had planned and asked many questions.
brought a chair, a coat and enough patience for the afternoon.
talked about prices, repairs and the plans for the coming year.
followed the same order of steps as in the decade before.
kept a notebook in which each change was written down at once.
agreed that good tools matter less than regular practice.
collected money, and argued about what to do with the rest."""


class Article(NamedTuple):
    """One article; `depth` is the share of its other sentences that stand before those on the fact, from 0 to 1."""

    id: str
    title: str
    text: str
    question: str
    depth: float


def long_articles() -> Sequence[Article]:
    """Returns the articles, by ascending depth of their facts; every call returns the same."""
    facts = [line.split(" | ") for line in FACTS.splitlines()]
    random.Random(7).shuffle(facts)
    articles = []
    for place, (_, subject, predicate, question) in enumerate(facts):
        topic = facts[place - 9][0]  # so that the topic does not give the fact away
        pairs = list(product(OPENINGS.splitlines(), ENDINGS.splitlines()))
        random.Random(place).shuffle(pairs)
        sentences = [f"{opening.format(topic)} {ending}" for opening, ending in pairs]
        about = [line.format(subject) for line in AROUND.splitlines()]
        room = CHARACTERS - len(" ".join(about))
        sentences = sentences[: room * len(sentences) // len(" ".join(sentences))]
        depth = place / (len(facts) - 1)
        at = round(depth * len(sentences))
        text = " ".join([*sentences[:at], *about[:5], f"{subject} {predicate}", *about[5:], *sentences[at:]])
        articles.append(Article(f"article{place:02}", topic.capitalize(), text, question, depth))
    return articles
