"""percentiles.py: what is printed of a list of times."""


def percentile(values, share):
    return round(values[min(len(values) - 1, int(share * len(values)))], 4)


def summary(values):
    values = sorted(values)
    shares = {"p1": 0.01, "p25": 0.25, "p50": 0.5, "p99": 0.99, "p999": 0.999, "most": 1}
    return {name: percentile(values, share) for name, share in shares.items()}
