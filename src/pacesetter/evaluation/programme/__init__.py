"""The programme's gates: sets of limits in `conf/gates`, held against what was measured of a run."""
