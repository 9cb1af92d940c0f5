"""The league: who learns what is there, on markets whose truth is known, beside oracles, regressions and hold."""
