"""What happens when a model call fails, and what it may cost: each policy is a `Model` around one.

From the outside in, made anew for each turn:

    FallbackModel([entry, ...])      another model takes over             falling_back.py
      RetryingModel                  the same request again, after a pause    retrying.py
        RotatingModel                another key of the same provider         rotating.py
          BreakingModel              counts failures of one key                breaker.py
            MeteredModel             no call that a cap does not allow        spending.py
              RepairingModel         the request again without what was refused  repairing.py

What outlives a turn is in `Health` (one per process) and `Purse` (one per session).
"""
