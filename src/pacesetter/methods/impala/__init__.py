"""IMPALA for a fleet: actors play with weights of some updates ago, one learner corrects for it by V-trace."""
