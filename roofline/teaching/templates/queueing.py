"""Queueing: Little's law, waiting, tails."""

from __future__ import annotations

import math

from ...units import plural
from ..drawing import Draw, template
from ..question import Question


@template("queueing", 1)
def requests_in_flight(d: Draw) -> Question:
    """Little's law."""
    rate, seconds = d.whole(1, 60), d.share(0.5, 20, 0.5)
    answer = rate * seconds
    return d.ask(
        f"Requests arrive at a rate of {rate} per second, and each spends "
        f"{seconds:g} s in the system on average. How many requests are in the system at a time?",
        answer,
        "requests",
        given={"rate": rate, "seconds": seconds},
        solution=[f"Little's law: {rate} x {seconds:g}"],
        mistakes={"inverse": rate / seconds},
        tolerance=0.02,
    )


@template("queueing", 1)
def utilization_of_servers(d: Draw) -> Question:
    """Offered load over servers."""
    servers, seconds, part = d.pick((1, 2, 4, 8)), d.share(0.1, 2, 0.1), d.share(0.3, 0.95)
    rate = float(f"{part * servers / seconds:.3g}")
    answer = 100 * rate * seconds / servers
    return d.ask(
        f"{rate:g} requests per second arrive at {plural(servers, 'server')}, and each takes "
        f"{seconds:g} s of work. What is the utilization?",
        answer,
        "%",
        given={"rate": rate, "seconds": seconds, "servers": servers},
        solution=[f"{rate:g} x {seconds:g} / {servers}"],
        mistakes={"one server": answer * servers, "complement": 100 - answer},
        tolerance=0.02,
    )


def _load(d: Draw) -> tuple[float, float, float]:
    """A rate, a service time, and the utilization that they give."""
    milliseconds, part = d.whole(20, 500, 10), d.share(0.3, 0.9)
    rate = float(f"{part / milliseconds * 1e3:.3g}")
    return rate, milliseconds / 1e3, rate * milliseconds / 1e3


@template("queueing", 2)
def wait_for_one_server(d: Draw) -> Question:
    """M/M/1: S rho / (1 - rho)."""
    rate, service, busy = _load(d)
    answer = service * busy / (1 - busy)
    return d.ask(
        f"Requests arrive at random (Poisson), {rate:g} per second, at one server. It takes {service * 1e3:g} ms per "
        "request on average, exponentially distributed. How many ms does a request wait on average before it is "
        "served?",
        answer * 1e3,
        "ms",
        given={"rate": rate, "service": service},
        solution=[f"utilization {busy:.3g}", f"{service * 1e3:g} ms x {busy:.3g} / (1 - {busy:.3g})"],
        mistakes={"includes service": service / (1 - busy) * 1e3, "no variability": answer / 2 * 1e3},
        tolerance=0.03,
    )


@template("queueing", 2)
def time_in_the_system(d: Draw) -> Question:
    """M/M/1: S / (1 - rho)."""
    rate, service, busy = _load(d)
    answer = service / (1 - busy)
    return d.ask(
        f"Requests arrive at random (Poisson), {rate:g} per second, at one server whose service time is exponential "
        f"with a mean of {service * 1e3:g} ms. How many ms does a request spend in the system on average, waiting and "
        "service together?",
        answer * 1e3,
        "ms",
        given={"rate": rate, "service": service},
        solution=[f"{service * 1e3:g} ms / (1 - {busy:.3g})"],
        mistakes={"waiting alone": service * busy / (1 - busy) * 1e3, "linear wait": service * (1 + busy) * 1e3},
        tolerance=0.03,
    )


@template("queueing", 3)
def wait_with_any_service(d: Draw) -> Question:
    """Pollaczek-Khinchine."""
    rate, service, busy = _load(d)
    variation = d.pick((0.0, 0.5, 1.5, 2.0, 3.0))
    answer = rate * service**2 * (1 + variation**2) / (2 * (1 - busy))
    return d.ask(
        f"Requests arrive at random (Poisson), {rate:g} per second, at one server. Its service time has a mean of "
        f"{service * 1e3:g} ms and a standard deviation of {variation:g} times the mean. How many ms does a request "
        "wait on average before it is served?",
        answer * 1e3,
        "ms",
        given={"rate": rate, "service": service, "variation": variation},
        solution=[f"Pollaczek-Khinchine: rate x S^2 (1 + {variation:g}^2) / (2 (1 - {busy:.3g}))"],
        mistakes={
            "no variability": rate * service**2 / (2 * (1 - busy)) * 1e3,
            "includes service": (answer + service) * 1e3,
        },
        tolerance=0.03,
    )


@template("queueing", 2)
def tail_of_a_response(d: Draw) -> Question:
    """An exponential's 99th percentile is ln 100 times its mean."""
    rate, service, busy = _load(d)
    mean = service / (1 - busy)
    answer = mean * math.log(100)
    return d.ask(
        f"Requests arrive at random (Poisson), {rate:g} per second, at one server whose service time is exponential "
        f"with a mean of {service * 1e3:g} ms, so the time in the system is exponential too. What is its 99th "
        "percentile, in ms?",
        answer * 1e3,
        "ms",
        given={"rate": rate, "service": service},
        solution=[f"mean {mean * 1e3:.4g} ms", "exp(-t / mean) = 0.01: t = mean x ln 100"],
        mistakes={"mean": mean * 1e3, "even spread": 1.99 * mean * 1e3},
        tolerance=0.03,
    )


@template("queueing", 3)
def rate_for_a_wait(d: Draw) -> Question:
    """W = r S^2 / (1 - r S) solved for r."""
    service, wait = d.whole(20, 500, 10), d.whole(20, 1000, 20)
    answer = wait / (service * (service + wait)) * 1e3
    return d.ask(
        f"One server has an exponential service time with a mean of {service} ms, and requests arrive at random "
        f"(Poisson). Up to how many requests per second does the mean wait stay at or below {wait} ms?",
        answer,
        "requests/s",
        given={"service": service / 1e3, "wait": wait / 1e3},
        solution=["W = r S^2 / (1 - r S), so r = W / (S (S + W))"],
        mistakes={"no variability": 2 * wait / (service * (service + 2 * wait)) * 1e3, "saturation": 1e3 / service},
        tolerance=0.03,
    )


def erlang_c(servers: int, load: float) -> float:
    """Probability of waiting for one of several servers, by the recursion of Erlang B."""
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = load * blocked / (count + load * blocked)
    busy = load / servers
    return blocked / (1 - busy + busy * blocked)


@template("queueing", 3)
def wait_for_one_of_several(d: Draw) -> Question:
    """Erlang C."""
    servers, service, part = d.pick((2, 3, 4, 8)), d.whole(50, 1000, 50), d.share(0.5, 0.9)
    rate = float(f"{part * servers / (service / 1e3):.3g}")
    load = rate * service / 1e3
    answer = erlang_c(servers, load) * service / (servers - load)
    alone = load / servers
    return d.ask(
        f"Requests arrive at random (Poisson), {rate:g} per second, in one queue for {servers} servers whose service "
        f"time is exponential with a mean of {service} ms. How many ms does a request wait on average before it is "
        "served?",
        answer,
        "ms",
        given={"rate": rate, "service": service / 1e3, "servers": servers},
        solution=[
            f"offered load {load:.3g} on {servers}: it waits with probability {erlang_c(servers, load):.3g} (Erlang C)",
            f"then {service} / ({servers} - {load:.3g}) ms",
        ],
        mistakes={
            "one server": service * alone / (1 - alone),
            "includes service": answer + service,
        },
        tolerance=0.03,
    )


@template("queueing", 1)
def wait_in_a_burst(d: Draw) -> Question:
    """The last of a burst waits for all before it."""
    burst, rate = d.whole(20, 1000, 20), d.whole(2, 40)
    answer = burst / rate
    return d.ask(
        f"{burst} requests arrive at once at a deployment that finishes {rate} per second. After how many seconds is "
        "the last one done?",
        answer,
        "s",
        given={"burst": burst, "rate": rate},
        solution=[f"{burst} / {rate}"],
        mistakes={"half the burst": answer / 2, "inverse": rate / burst},
        tolerance=0.02,
    )


@template("queueing", 2)
def throughput_of_a_closed_loop(d: Draw) -> Question:
    """N / (R + Z)."""
    users, response, thinking = d.whole(10, 500, 10), d.share(0.5, 10, 0.5), d.share(5, 60, 5)
    answer = users / (response + thinking)
    return d.ask(
        f"Each of {users} users sends a request, waits {response:g} s for the answer, and reads it for {thinking:g} s "
        "before sending the next. How many requests per second do they send in total?",
        answer,
        "requests/s",
        given={"users": users, "response": response, "thinking": thinking},
        solution=[f"{users} / ({response:g} + {thinking:g})"],
        mistakes={"forgets thinking": users / response, "one user": 1 / (response + thinking)},
        tolerance=0.02,
    )
