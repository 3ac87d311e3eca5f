"""Escapes text for LaTeX, in all tables alike. Pure."""

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
    }
)


def latex_text(text: str) -> str:
    """Returns text that LaTeX prints as it is. A line break becomes a space."""
    return text.translate(_LATEX)
