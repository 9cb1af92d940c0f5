"""Sentences of a judgement in Persian: a pattern for each English sentence that the verdict and its reasons write.

A text is translated whole or not at all, so that a page never mixes two languages inside a paragraph.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import product

__all__ = ["in_persian"]

LEFT_TO_RIGHT, END = "\u2066", "\u2069"  # isolates: signs and brackets of numbers keep their side in a Persian line

NUMBER = r"[+\-−]?[\d,]+(?:\.\d+)?(?:e[+\-]?\d+)?%?|nan|inf"
INTERVAL = rf"(?:{NUMBER}) \((?:{NUMBER}) to (?:{NUMBER})\)"
AT_COST, AT_COST_FIRST = r"(\S+) at (\S+×)", r"\2: \1"
NAME = r"\S+(?: \S+)*?"

# English pattern -> Persian, \1 … being what the groups hold; the first that matches is taken.
TRIALS = rf", ({NUMBER}) bars, deflated Sharpe probability ((?:{NUMBER}) %) \(({NUMBER}) trials?\)"
TRIALS_PERSIAN = r"، {0} میله، احتمال شارپ تعدیل‌شده {1} ({2} آزمایش)"
PERCENT = rf"({INTERVAL})"
SHARPES = (  # by single bars, or by sums of 21 days; Persian with the places of its groups
    (rf"({INTERVAL})", r"{0}"),
    (rf"({INTERVAL}) from 21-day sums \(({NUMBER}) from bars\)", r"{0} از مجموع‌های 21 روزه ({1} از میله‌ها)"),
)
EDGES = (
    (rf"Sharpe ratio of ({NAME}) over cash ", r"نسبت شارپ {0} نسبت به نقد "),
    (
        rf"({NAME}) adds {PERCENT} a year to ({NAME}), Sharpe ratio ",
        r"{0} سالانه {1} به {2} می‌افزاید، نسبت شارپ ",
    ),
)
ENDS = (
    (rf"; detecting such a ratio takes about ({NUMBER}) bars", r"؛ برای تشخیص چنین نسبتی حدود {0} میله لازم است"),
    (
        rf"; ({NAME}) explains it: alpha {PERCENT} a year at beta ({NUMBER})",
        r"؛ {0} آن را توضیح می‌دهد: آلفا سالانه {1} با بتای {2}",
    ),
    ("", ""),
)
CLAIMS = (
    (r"No edge found", r"مزیتی یافت نشد"),
    (rf"Edge at ((?:{NUMBER}) %)", r"مزیت در سطح \1"),
    (rf"Better than ({NAME}), the best of ({NUMBER}) baselines", r"بهتر از \1، بهترینِ \2 روش پایه"),
    (rf"Not better than ({NAME}), the best of ({NUMBER}) baselines", r"نه بهتر از \1، بهترینِ \2 روش پایه"),
    (rf"Worse than ({NAME}), the best of ({NUMBER}) baselines", r"بدتر از \1، بهترینِ \2 روش پایه"),
    (rf"Better than ({NAME})", r"بهتر از \1"),
    (rf"Not better than ({NAME})", r"نه بهتر از \1"),
    (rf"Worse than ({NAME})", r"بدتر از \1"),
    (rf"The selection among ({NUMBER}) variants is more than chance", r"انتخاب از میان \1 گونه بیش از تصادف است"),
    (
        rf"The selection among ({NUMBER}) variants is not more than chance",
        r"انتخاب از میان \1 گونه بهتر از تصادف نیست",
    ),
)


def _join_patterns(*parts: tuple[str, str]) -> tuple[str, str]:
    """One pattern of several, and its Persian, in which {0} … of each part become its own groups."""
    english, persian, before = "", "", 0
    for pattern, said in parts:
        groups = re.compile(pattern).groups
        persian += said.format(*(rf"\{before + place}" for place in range(1, groups + 1)))
        english, before = english + pattern, before + groups
    return english, persian


FIGURES = (
    *(_join_patterns(edge, ratio, (TRIALS, TRIALS_PERSIAN), end) for edge, ratio, end in product(EDGES, SHARPES, ENDS)),
    (rf"({NAME}) never held a position in ({NUMBER}) bars", r"\1 در \2 میله هرگز موقعیتی نداشت"),
    (
        rf"({NAME}) has no views, so that it is ({NAME}) in ({NUMBER}) bars",
        r"\1 در \3 میله نظری نداشت، پس همان \2 است",
    ),
    (rf"Sharpe difference ({INTERVAL}), p = ({NUMBER})", r"اختلاف نسبت شارپ \1، مقدار p برابر \2"),
    (
        rf"the best falls to or below their median out-of-sample with probability ({NUMBER})",
        r"بهترین آن‌ها بیرون از نمونه با احتمال \1 به میانه یا پایین‌تر از آن می‌رسد",
    ),
)
OPENINGS = "|".join(("No edge found", "Edge at", "Better than", "Not better than", "Worse than", "The selection among"))
SENTENCES = (
    (r"No evidence$", r"شواهدی نیست"),
    (r"Evidence$", r"شواهد هست"),
    (r"No edge found$", r"مزیتی یافت نشد"),
    (r"Better than all$", r"بهتر از همه"),
    (r"Edge, compared with cash alone$", r"مزیت، تنها در برابر نقد"),
    (rf"Edge, not better than ({NAME})$", r"مزیت، نه بهتر از \1"),
    (rf"(?P<claim>(?:{OPENINGS})[^:]*): (?P<figures>.+?)\.", "{claim}: {figures}."),
    *(
        _join_patterns((r"The account as a whole: Sharpe ratio ", "حساب در کل: نسبت شارپ "), ratio, (r"\.", "."))
        for ratio in SHARPES
    ),
    (
        rf"On the same bars ({NAME}), the best of ({NUMBER}) baselines, had a Sharpe ratio of ({NUMBER})\.",
        r"در همان میله‌ها \1، بهترینِ \2 روش پایه، نسبت شارپ \3 داشت.",
    ),
    (rf"On the same bars ({NAME}) had a Sharpe ratio of ({NUMBER})\.", r"در همان میله‌ها \1 نسبت شارپ \2 داشت."),
    (r"Sharpe ratio by costs: ([^:]+?×)\.", r"نسبت شارپ بر پایهٔ هزینه‌ها: \1."),
    (
        rf"Moves like the index: beta ({NUMBER}), correlation ({NUMBER})\.",
        r"مانند شاخص حرکت می‌کند: بتا \1، همبستگی \2.",
    ),
    (
        rf"Moves apart from the index: beta ({NUMBER}), correlation ({NUMBER})\.",
        r"جدا از شاخص حرکت می‌کند: بتا \1، همبستگی \2.",
    ),
    (
        rf"Moves partly with the index: beta ({NUMBER}), correlation ({NUMBER})\.",
        r"تا اندازه‌ای با شاخص حرکت می‌کند: بتا \1، همبستگی \2.",
    ),
    (
        rf"Earned more than cash: even the low end of its Sharpe ratio is above zero \(({NUMBER})\)\.",
        r"بیش از نقد به دست آورد: حتی کران پایین نسبت شارپ آن بالای صفر است (\1).",
    ),
    (
        rf"Lost against cash: even the high end of its Sharpe ratio is below zero \(({NUMBER})\)\.",
        r"در برابر نقد زیان کرد: حتی کران بالای نسبت شارپ آن زیر صفر است (\1).",
    ),
    (
        rf"Within chance: its Sharpe ratio may be anything from ({NUMBER}) to ({NUMBER})\.",
        r"در محدودهٔ تصادف: نسبت شارپ آن می‌تواند هر مقداری از \1 تا \2 باشد.",
    ),
    (
        rf"Worse than ({NAME}), the best baseline, by a Sharpe difference of ({NUMBER})\.",
        r"نسبت شارپ آن \2 از \1، بهترین روش پایه، کمتر است.",
    ),
    (
        rf"Better than ({NAME}), the best baseline, by a Sharpe difference of ({NUMBER})\.",
        r"نسبت شارپ آن \2 از \1، بهترین روش پایه، بیشتر است.",
    ),
    (
        rf"No different from ({NAME}), the best baseline, within chance\.",
        r"در محدودهٔ تصادف تفاوتی با \1، بهترین روش پایه، ندارد.",
    ),
    (
        rf"Lost before costs, and costs took another ({NUMBER}) of the first equity\.",
        r"پیش از هزینه‌ها هم زیان کرد، و هزینه‌ها \1 دیگر از سرمایهٔ نخستین را گرفت.",
    ),
    (rf"Costs took ({NUMBER}) of what it earned before them\.", r"هزینه‌ها \1 از سود پیش از هزینه را گرفت."),
    (rf"Closed ({NUMBER}) trades only\.", r"تنها \1 معامله بسته شد."),
    # ---- what the parts of a judgement open with
    (
        rf"(GO|NO-GO): ({NUMBER}) of ({NUMBER}) gates passed; the memo has the decision\.",
        r"\1: \2 آستانه از \3 برآورده شد؛ تصمیم در یادداشت آمده است.",
    ),
    (
        r"Against an equal-weight index of all symbols without costs; alpha is annualised\.",
        r"در برابر شاخص هم‌وزن همهٔ نمادها، بدون هزینه؛ آلفا سالانه است.",
    ),
    (rf"Against ({NAME}) without costs; alpha is annualised\.", r"در برابر \1، بدون هزینه؛ آلفا سالانه است."),
    (
        r"A drawdown is a share of the highest equity before it, and never has a sign\.",
        r"افت سرمایه سهمی از بالاترین سرمایهٔ پیش از آن است و هرگز علامت ندارد.",
    ),
    (
        r"By the regime that most symbols were in at the close of the decision\.",
        r"بر پایهٔ رژیمی که بیشتر نمادها هنگام تصمیم در آن بودند.",
    ),
    (
        rf"({NUMBER}) of ({NUMBER}) equal periods of the test set had a gain\.",
        r"\1 دوره از \2 دورهٔ برابرِ مجموعهٔ آزمون سود داشت.",
    ),
    (
        (
            r"The same policy, not retrained, with the test bars changed from a third of the way on; the guide "
            r"describes each stress\."
        ),
        (
            r"همان سیاست، بدون آموزش دوباره، با میله‌های آزمون که از یک‌سوم راه به بعد تغییر کرده‌اند؛ راهنما هر تنش "
            r"را شرح می‌دهد."
        ),
    ),
    (
        r"A fast evaluation: stressed markets, and limits other than costs, were left out\.",
        r"ارزیابی سریع: بازارهای تنش و محدودیت‌های جز هزینه کنار گذاشته شد.",
    ),
    (
        r"The same policy under other costs and limits, one at a time\.",
        r"همان سیاست با هزینه‌ها و محدودیت‌های دیگر، هر بار یکی.",
    ),
    (
        (
            rf"What each symbol earned after costs\. Concentration of the absolute shares: Herfindahl ({NUMBER}|–), "
            rf"Gini ({NUMBER}|–)\."
        ),
        r"آنچه هر نماد پس از هزینه‌ها به دست آورد. تمرکز سهم‌های مطلق: هرفیندال \1، جینی \2.",
    ),
    (
        rf"({NUMBER}) of ({NUMBER}) months with a gain\. Best (.+?): ({NUMBER}); worst (.+?): ({NUMBER})\.",
        r"\1 ماه از \2 ماه سود داشت. بهترین \3: \4؛ بدترین \5: \6.",
    ),
    (
        r"The last column is the whole year as far as it was judged\.",
        r"ستون آخر همهٔ سال است، تا جایی که ارزیابی شده است.",
    ),
    (
        rf"Share of equity in the ({NUMBER}) largest of ({NUMBER}) symbols, the others together, and cash\.",
        r"سهم \1 نماد بزرگ‌تر از \2 نماد در سرمایه، بقیه با هم، و نقد.",
    ),
    (
        rf"Share of equity in the ({NUMBER}) largest of ({NUMBER}) symbols, and cash\.",
        r"سهم \1 نماد بزرگ‌تر از \2 نماد در سرمایه، و نقد.",
    ),
    (
        rf"On average ({NUMBER}) of equity is invested, in ({NUMBER}) symbols\.",
        r"به طور میانگین \1 سرمایه در \2 نماد سرمایه‌گذاری شده است.",
    ),
    (
        (
            rf"({NUMBER}) trades from flat to flat in ({NUMBER}) of ({NUMBER}) symbols, and ({NUMBER}) lots closed, "
            r"first in, first out\."
        ),
        r"\1 معاملهٔ کامل، از باز شدن تا بسته شدن، در \2 نماد از \3 نماد، و \4 بخشِ بسته‌شده به ترتیب ورود.",
    ),
    (
        r"Pick a symbol to see its trades; the largest are drawn\.",
        r"نمادی را برگزینید تا معامله‌های آن را ببینید؛ بزرگ‌ترین‌ها کشیده شده‌اند.",
    ),
    (
        r"Gains, profit and loss and bars are of closed lots, after commission\.",
        r"سودها، سود و زیان و میله‌ها از بخش‌های بسته‌شده‌اند، پس از کارمزد.",
    ),
    (
        rf"Walk-forward: one account, refitted before each of ({NUMBER}) tests in a row \(([\d, -]+)\)\.",
        r"پیش‌روی گام‌به‌گام: یک حساب، بازآموخته پیش از هر یک از \1 آزمون پیاپی (\2).",
    ),
    (
        r"The share of risk is that of the account's variance, and turnover is annual\.",
        r"سهم ریسک، سهم از واریانس حساب است، و گردش سالانه است.",
    ),
    (
        rf"Capacity: the net return of ({NUMBER}) a year halves at an equity of ({NUMBER}) by impact\.",
        r"ظرفیت: بازده خالص \1 در سال با سرمایهٔ \2 بر اثر اثر قیمتی نصف می‌شود.",
    ),
    (
        (
            rf"Capacity: the net return of ({NUMBER}) a year halves at an equity of ({NUMBER}) by an assumed impact of "
            r"one day's volatility · √\(share of volume\)\."
        ),
        r"ظرفیت: بازده خالص \1 در سال با سرمایهٔ \2 با اثر قیمتیِ فرضیِ نوسان یک روز · √(سهم از حجم) نصف می‌شود.",
    ),
    (
        (
            r"Capacity: (?:impact|an assumed impact of one day's volatility · √\(share of volume\)) does not halve the "
            r"net return at any equity looked at\."
        ),
        r"ظرفیت: اثر قیمتی بازده خالص را با هیچ سرمایهٔ بررسی‌شده‌ای نصف نمی‌کند.",
    ),
    (r"Nothing was traded\.", r"چیزی معامله نشد."),
)


@cache
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(rf"{english}(?= |$)"), persian) for english, persian in SENTENCES)


def in_persian(text: str) -> str:
    """The text in Persian; empty where a sentence of it is not known."""
    said, place = [], 0
    while place < len(text):
        translated = _sentence(text, place)
        if translated is None:
            return ""
        sentence, place = translated
        said.append(sentence)
        place += text[place : place + 1] == " "
    return " ".join(said)


def _sentence(text: str, place: int) -> tuple[str, int] | None:
    """The Persian of the sentence that begins there, and where the next one begins."""
    for pattern, persian in _compiled():
        match = pattern.match(text, place)
        if match is None:
            continue
        groups = match.groupdict()
        parts = {name: _part(text, CLAIMS if name == "claim" else FIGURES) for name, text in groups.items()}
        if all(parts.values()):
            sentence = _fill_persian(match, persian)
            for name, part in parts.items():
                sentence = sentence.replace(f"{{{name}}}", part)
            return sentence, match.end()
    return None


def _part(text: str, known: tuple[tuple[str, str], ...]) -> str:
    matches = ((re.fullmatch(english, text), persian) for english, persian in known)
    return next((_fill_persian(match, persian) for match, persian in matches if match is not None), "")


def _fill_persian(match: re.Match[str], persian: str) -> str:
    """The Persian with what the groups hold, each kept from left to right.

    No Persian word may stand inside: after one, numbers are ordered from right to left.
    """

    def group(number: re.Match[str]) -> str:
        held = match[int(number[1])].replace(" to ", " … ")
        return f"{LEFT_TO_RIGHT}{re.sub(AT_COST, AT_COST_FIRST, held)}{END}"

    return re.sub(r"\\(\d+)", group, persian)
