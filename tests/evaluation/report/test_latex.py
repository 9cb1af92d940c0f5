"""Tables of a report as LaTeX."""

from __future__ import annotations

from pacesetter.evaluation.report.latex import latex_tables
from pacesetter.evaluation.report.page import Section

EXPECTED = r"""% needs \usepackage{booktabs}
\begin{table}
\centering
\caption{Results \& costs}
\label{tab:results---costs}
\begin{tabular}{lrl}
\toprule
policy & annual return & verdict \\
\midrule
inverse\_volatility & +12\% & $\ge$ hold \\
ppo \{a\} & -3\% & $-$1, no \#1 \textbackslash{} -- \\
\bottomrule
\end{tabular}
\end{table}
"""


def test_letters_that_latex_reads_as_commands_are_escaped_and_numbers_stand_to_the_right():
    rows = (("inverse_volatility", "+12%", "≥ hold"), ("ppo {a}", "-3%", "−1, no #1 \\ –"))
    table = Section("Results & costs", "Text.", (), ("policy", "annual return", "verdict"), rows)
    assert latex_tables([Section("Only text", "No table."), table]) == EXPECTED
