"""The stream encoder: each bar is encoded once, and what is kept of it serves the bars after it.

`encoder` is the network; `following` finds the bars of a window that are new, and needs no torch.
"""
