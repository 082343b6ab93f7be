"""percentiles.py: percentiles of a sorted list."""


def percentile(values, share):
    return values[min(len(values) - 1, int(share * len(values)))]
