"""Cost: what a token, a request, a month and a joule come to."""

from __future__ import annotations

import math

from ...units import plural
from ..drawing import Draw, template
from ..question import Question

HOUR = 3600.0
MONTH_HOURS = 730


@template("cost", 1)
def price_of_a_million_tokens(d: Draw) -> Question:
    """Price an hour over tokens an hour."""
    price, count, tokens = d.share(0.8, 6, 0.1), d.pick((1, 2, 4, 8)), d.whole(500, 20_000, 500)
    answer = price * count / (tokens * HOUR) * 1e6
    return d.ask(
        f"A deployment of {plural(count, 'accelerator')} at {price:.2f} USD per hour each "
        f"generates {tokens:,} output tokens per second in total. What do a million output "
        "tokens cost, in USD?",
        answer,
        "USD",
        given={"price": price, "accelerators": count, "rate": tokens},
        solution=[f"{count} x {price:.2f} / (3600 x {tokens:,}) x 1e6"],
        mistakes={"per device": answer / count, "hour": answer * 60, "inverse": 1 / answer},
        tolerance=0.02,
    )


@template("cost", 1)
def price_of_a_request(d: Draw) -> Question:
    """Price a second over requests a second."""
    price, count, rate = d.share(0.8, 6, 0.1), d.pick((1, 2, 4, 8)), d.whole(1, 40)
    answer = price * count / (rate * HOUR) * 1e3
    return d.ask(
        f"A deployment of {plural(count, 'accelerator')} at {price:.2f} USD per hour each "
        f"serves {rate} requests per second in total. What do a thousand requests cost, in "
        "USD?",
        answer,
        "USD",
        given={"price": price, "accelerators": count, "rate": rate},
        solution=[f"{count} x {price:.2f} / (3600 x {rate}) x 1000"],
        mistakes={"per device": answer / count, "hour": answer * 60},
        tolerance=0.02,
    )


@template("cost", 2)
def accelerators_for_a_load(d: Draw) -> Question:
    """Round up, utilization kept."""
    rate, output, each, part = (
        d.whole(5, 200, 5),
        d.whole(50, 800, 50),
        d.whole(500, 5000, 250),
        d.pick((0.6, 0.7, 0.8)),
    )
    needed = rate * output / (each * part)
    return d.ask(
        f"{rate} requests per second arrive, with {output} output tokens each. An accelerator generates {each:,} "
        f"tokens per second at full load, and you want a utilization of {part:.0%}. How many accelerators do you need?",
        math.ceil(needed),
        "accelerators",
        given={"rate": rate, "output": output, "each": each, "utilization": part},
        solution=[f"{rate} x {output} / ({each:,} x {part:g}) = {needed:.4g}, rounded up"],
        mistakes={
            "full use": math.ceil(rate * output / each),
            "rounded down": math.floor(needed),
            "inverse": math.ceil(rate * output * part / each),
        },
        tolerance=0.001,
    )


@template("cost", 1)
def bill_of_a_month(d: Draw) -> Question:
    """Hours of a month."""
    price, count = d.share(0.8, 6, 0.1), d.pick((1, 2, 4, 8, 16, 32))
    answer = price * count * MONTH_HOURS
    return d.ask(
        f"What does a deployment of {plural(count, 'accelerator')} at {price:.2f} USD per hour each cost in a month "
        f"of {MONTH_HOURS} hours, in USD?",
        answer,
        "USD",
        given={"price": price, "accelerators": count, "hours": MONTH_HOURS},
        solution=[f"{count} x {price:.2f} x {MONTH_HOURS}"],
        mistakes={"per device": price * MONTH_HOURS, "one day": price * count * 24},
        tolerance=0.01,
    )


@template("cost", 2)
def utilization_that_beats_an_api(d: Draw) -> Question:
    """Own cost over what an API asks for the same tokens."""
    price, tokens, api = d.share(1, 4, 0.5), d.whole(1000, 8000, 500), d.share(0.2, 3, 0.1)
    answer = 100 * price / (tokens * HOUR / 1e6 * api)
    return d.ask(
        f"An accelerator costs {price:.2f} USD per hour and generates up to {tokens:,} output tokens per second. An "
        f"API charges {api:.2f} USD for a million. At what utilization, in percent, do both cost the same? (It may be "
        "above 100.)",
        answer,
        "%",
        given={"price": price, "rate": tokens, "api": api},
        solution=[f"a full hour is worth 3600 x {tokens:,} / 1e6 x {api:.2f} USD", f"{price:.2f} USD divided by that"],
        mistakes={"inverse": 1e4 / answer, "hour": answer * 60},
        tolerance=0.02,
    )


@template("cost", 2)
def energy_of_a_token(d: Draw) -> Question:
    """Watts over tokens a second."""
    watts, count, tokens = d.whole(300, 1200, 50), d.pick((1, 2, 4, 8)), d.whole(500, 20_000, 500)
    answer = watts * count / tokens
    return d.ask(
        f"A deployment of {plural(count, 'accelerator')} that draw {watts} W each "
        f"generates {tokens:,} output tokens per second in total. How many joules does a "
        "token take?",
        answer,
        "J",
        given={"watts": watts, "accelerators": count, "rate": tokens},
        solution=[f"{count} x {watts} / {tokens:,}"],
        mistakes={"per device": answer / count, "inverse": 1 / answer},
        tolerance=0.02,
    )


@template("cost", 2)
def electricity_of_a_million_tokens(d: Draw) -> Question:
    """Joules to kilowatt-hours."""
    joules, price, overhead = d.share(0.1, 5, 0.1), d.share(0.06, 0.4, 0.02), d.pick((1.1, 1.2, 1.3, 1.5))
    answer = joules * overhead * 1e6 / 3.6e6 * price
    return d.ask(
        f"A token takes {joules:g} J at the accelerators. The data center multiplies that by {overhead:g} (its PUE), "
        f"and a kWh costs {price:.2f} USD. What does the electricity for a million tokens cost, in USD?",
        answer,
        "USD",
        given={"joules": joules, "price": price, "overhead": overhead},
        solution=[f"{joules:g} x {overhead:g} x 1e6 J = {joules * overhead / 3.6:.4g} kWh, times {price:.2f}"],
        mistakes={"no overhead": answer / overhead, "hour": answer * 3.6},
        tolerance=0.02,
    )


@template("cost", 2)
def price_of_a_peak(d: Draw) -> Question:
    """A fleet for the peak idles on average."""
    peak, mean = d.whole(40, 400, 20), d.share(0.2, 0.8)
    load = round(peak * mean)
    answer = 100 * (1 - load / peak)
    return d.ask(
        f"A fleet is sized for a peak of {peak} requests per second; on average {load} arrive. What percentage of its "
        "cost pays for idle time?",
        answer,
        "%",
        given={"peak": peak, "mean": load},
        solution=[f"1 - {load} / {peak}"],
        mistakes={"complement": 100 - answer, "inverse": 100 * (peak / load - 1)},
        tolerance=0.02,
    )


@template("cost", 1)
def saving_of_a_speedup(d: Draw) -> Question:
    """1 - 1 / s."""
    times = d.share(1.05, 4.0, 0.05)
    answer = 100 * (1 - 1 / times)
    return d.ask(
        f"A technique makes a deployment {times:g} times as fast at the same price per hour. By what percentage does "
        "the cost of a token fall?",
        answer,
        "%",
        given={"times": times},
        solution=[f"1 - 1 / {times:g}"],
        mistakes={"speedup itself": 100 * (times - 1), "complement": 100 / times},
        tolerance=0.02,
    )


@template("cost", 2)
def prompt_and_answer_together(d: Draw) -> Question:
    """Accelerator time of both phases."""
    prompt, step, output, batch = d.whole(50, 900, 10), d.whole(8, 60), d.whole(50, 500, 10), d.pick((8, 16, 32, 64))
    price = d.share(1, 6, 0.5)
    milliseconds = prompt + (output - 1) * step / batch
    answer = milliseconds / 1e3 / HOUR * price * 1e3
    return d.ask(
        f"A request needs {prompt} ms of prefill, during which nothing else runs, and {output - 1} decode steps of "
        f"{step} ms in a batch of {batch}. The accelerator costs {price:.2f} USD per hour. What do a thousand such "
        "requests cost, in USD?",
        answer,
        "USD",
        given={"prefill": prompt / 1e3, "step": step / 1e3, "steps": output - 1, "batch": batch, "price": price},
        solution=[f"{prompt} + {output - 1} x {step} / {batch} = {milliseconds:.4g} ms of the accelerator per request"],
        mistakes={
            "no batch": (prompt + (output - 1) * step) / 1e3 / HOUR * price * 1e3,
            "one phase": (output - 1) * step / batch / 1e3 / HOUR * price * 1e3,
        },
        tolerance=0.02,
    )
