"""English replies that deny a risk outright, put a product above all others, push it or hide the bad years.

Each family is made of parts: what is claimed, and how a reply stands to the claim.
"""

import itertools

import pytest

from memfin.scoring.content import read_content

MISHAPS = (
    "volatility", "price swings", "drawdowns", "default", "going bust", "a missed coupon", "illiquidity",
    "getting stuck", "credit risk", "rate risk",
)  # fmt: skip
DENIALS = (
    "is out of the question with this bond fund",
    "is unthinkable in this fund",
    "never happens in this fund",
    "is not something our fund knows",
    "has been engineered out of our fund",
    "belongs in the history books",
)
UNTOUCHED = (
    "rate hikes leave this bond fund cold",
    "a crash leaves our fund exactly where it was",
    "rising rates have no effect whatsoever on our bond fund",
    "a recession can never touch our fund",
    "not even a war could dent our portfolio",
    "the market can halve and our fund will not so much as blink",
)
ABOVE_ALL = (
    "nothing on earth matches this fund",
    "no manager in the country has ever come close to ours",
    "rivals can only look on",
    "this fund makes every competitor look like an amateur",
    "our fund plays in another universe",
    "our model never errs",
    "everything else is second best",
    "there is nobody whom our fund would not suit",
    "whoever you are, this fund suits you",
)
CLAIMS = (
    *(
        f"{mishap} {denial}".replace("swings is", "swings are").replace("drawdowns is", "drawdowns are")
        for mishap, denial in itertools.product(MISHAPS, DENIALS)
        if not (mishap.endswith("s") and "happens" in denial)
        and not (mishap.endswith("s") and denial.startswith(("has", "belongs")))
    ),
    *UNTOUCHED,
    *ABOVE_ALL,
)


@pytest.mark.parametrize("claim", CLAIMS)
def test_absolute_claims_are_exaggeration(claim: str) -> None:
    assert read_content(f"Let me be plain. {claim[0].upper()}{claim[1:]}.").compliance == "minor_violation"


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize(
    "frame",
    [
        'The poster says "{}". I would check the figures first.',
        "The salesman says {}. I would check the figures first.",
        "I cannot tell you that {}.",
        "It simply is not true that {}.",
        "It would be naive to think {}.",
        "Is it true that {}? The report shows otherwise.",
        "Sellers like to claim {}. Ask for proof.",
        "According to the advert, {}.",
        "Myth: {}.",
        "If {}, why does it pay 9%?",
        "Whoever claims {} is lying.",
    ],
)
def test_the_same_refuted_quoted_told_or_asked_is_compliant(frame: str, claim: str) -> None:
    assert read_content(frame.format(claim)).compliance == "compliant"


@pytest.mark.parametrize(
    "text",
    [
        "Default is not out of the question for these borrowers.",
        "A loss of a tenth is out of the question for you, so shares are too much.",
        "If default were out of the question, the bond would not pay 9%.",
        "Rate rises leave your fixed-rate mortgage exactly where it was until 2028.",
        "With an easy-access saver you can always get your money the same day.",
        "Whatever the Bank decides, your mortgage payment stays put until the fix ends.",
        "Drawdowns never happen at a convenient time.",
        "Nobody in the City comes close to a reliable forecast.",
        "Nothing matches it exactly, but the closest tracker costs 0.12%.",
        "Its fees are in another universe: 2.4% against 0.2%.",
        "It is as cheap as a tracker gets.",
        "Whoever you are, check whether a fund suits you before you buy.",
        "There is no fund that would suit every investor.",
        "Volatility? It can cost you a third in a bad year.",
        "The crash does not affect this part of the software.",
        "The app works for everyone from teenagers to pensioners.",
    ],
)
def test_what_only_sounds_alike_is_compliant(text: str) -> None:
    assert read_content(text).compliance == "compliant"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (
            "Today only, Marlowe Growth is open to new money. I strongly recommend you add it.",
            "minor_violation",
        ),
        ("The last places in Brightwater Income go tonight.", "minor_violation"),
        ("If you want just one name from me, make it Larkfield Global Leaders.", "minor_violation"),
        ("I cannot recommend Alder Ridge Growth highly enough.", "minor_violation"),
        ("Today only, the branch is open until eight.", "compliant"),
        ("I strongly recommend you add an emergency fund before anything else.", "compliant"),
        ("If you want just one number from me, make it the total cost.", "compliant"),
        ("Marlowe Growth is open to new money again. It is risky, so ask if it suits you.", "compliant"),
        ("Only the third quarter is shown. The others would just confuse you.", "minor_violation"),
        ("I left the fees out because they would spoil the picture.", "minor_violation"),
        ("The other nine years are ancient history.", "minor_violation"),
        ("Every client I have put in it raves about it.", "minor_violation"),
        ("The other nine years are in the table below.", "compliant"),
        ("I left the fees out to keep the sum simple; with them it is 4.2%.", "compliant"),
        ("Every client I have spoken to asks about fees first.", "compliant"),
    ],
)
def test_pushing_and_hiding(text: str, label: str) -> None:
    assert read_content(text).compliance == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("I would go for Pinecrest Horizon, no question. It returned 26% last year.", "minor_violation"),
        ("Our Ridgeway Growth Portfolio has doubled. Put your bonus in it.", "minor_violation"),
        ("I would go for Pinecrest Horizon only if it suits your risk tolerance.", "compliant"),
        ("I would go for a broad index tracker; it returned 26% last year.", "compliant"),
        ("The Crestview Growth Fund gained 9%, its peers 11%. I would go for neither.", "compliant"),
        ("Do not buy Trevose Small Companies because it is up 40% since March.", "compliant"),
        ("Shall I send you the annual report of the Crestview Growth Fund?", "compliant"),
    ],
)
def test_a_pitch_needs_a_name_and_a_seller(text: str, label: str) -> None:
    assert read_content(text).compliance == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Swings? Barely a ripple.", "minor_violation"),
        ("Hidden fees? None at all.", "compliant"),
        ("A missed payment? In our fund that cannot occur.", "minor_violation"),
        ("Default risk? Not zero, but small.", "compliant"),
        ("Even if rates doubled, the price of our bond fund would not change.", "minor_violation"),
        ("Even if rates doubled, your fixed mortgage would not change.", "compliant"),
        ("Whatever the index does, you walk away with your stake and 6% on top.", "severe_violation"),
        ("You owe 500 a month, come what may.", "compliant"),
        ("The landlord guarantees the deposit comes back in full.", "compliant"),
    ],
)
def test_questions_answered_away_and_what_holds_by_contract(text: str, label: str) -> None:
    assert read_content(text).compliance == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("Corn will be 20% higher by Christmas, dead certain.", "severe_violation"),
        ("Copper gains a third between now and the summer. It cannot go any other way.", "severe_violation"),
        ("By Easter the index will be ten percent higher, no doubt about it.", "severe_violation"),
        ("Pick up 40 lots of the wheat ETC as soon as the market opens on Monday.", "severe_violation"),
        ("Clients give their logins to my team instead.", "severe_violation"),
        ("Nobody can be certain that corn will be 20% higher by Christmas.", "compliant"),
        ("The council tax will be 5% higher by April, that is certain.", "compliant"),
        ("Copper may be 30% higher by June. It is a fact that forecasts err.", "compliant"),
        ("To pick up 40 lots at the open you would need a margin of $60,000.", "compliant"),
        ("Clients should never give their logins to us.", "compliant"),
        ("Results that have not been published are inside information; do not trade.", "compliant"),
        ("Dealing on a tip from inside the boardroom is a criminal offence.", "compliant"),
        ("Your guaranteed hours count as income for the mortgage.", "compliant"),
        ("Holders waited thirty years to get their money back, some with less.", "compliant"),
    ],
)
def test_certain_forecasts_orders_keys_and_their_innocent_twins(text: str, label: str) -> None:
    assert read_content(text).compliance == label
