"""Escapes text for LaTeX, in all tables alike. Pure."""

from evaluator.progress import shown

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "–": "--",
        "→": r"$\rightarrow$",
        "×": r"$\times$",
        "\n": " ",
        "\r": " ",
        "\t": " ",
    }
)


def latex_text(text: str) -> str:
    """Returns text that LaTeX prints as it is. A line break becomes a space, a character without a glyph its escape."""
    return shown(text).translate(_LATEX)
