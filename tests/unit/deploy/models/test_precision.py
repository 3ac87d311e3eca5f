"""Which precision a CPU gets, by texts of /proc/cpuinfo, and that `make models` fetches accordingly."""

from pathlib import Path

import pytest

from deploy.models.fetch import main
from deploy.models.precision import MODELS, Precision, choose_precision, int8_instructions
from services.inference.profiles import MODELS_FILE, ModelError, load_profiles


def x86(*cores: str) -> str:
    return "\n".join(
        f"processor\t: {number}\nmodel name\t: A CPU @ 2.00GHz\nflags\t\t: fpu sse2 {flags}\nvmx flags\t: vnmi\n"
        for number, flags in enumerate(cores)
    )


def arm(*cores: str) -> str:
    return "\n".join(
        f"processor\t: {number}\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd {features}\nCPU part\t: 0xd0c\n"
        for number, features in enumerate(cores)
    )


@pytest.mark.parametrize(
    ("cpuinfo", "found"),
    [
        (x86("avx2 avx512f avx512_vnni"), "avx512_vnni"),
        (x86("avx2 avx_vnni", "avx2 avx_vnni"), "avx_vnni"),
        (x86("avx2 avx512f avx512_bf16 amx_bf16"), None),
        (x86("avx2 avx_vnni", "avx2"), None),
        (arm("aes crc32 atomics asimddp"), "asimddp"),
        (arm("aes crc32"), None),
        ("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", None),
        ("", None),
    ],
)
def test_int8_takes_instructions_that_every_core_has(cpuinfo: str, found: str | None) -> None:
    assert int8_instructions(cpuinfo) == found


@pytest.mark.parametrize(
    ("asked", "flags", "precision"),
    [
        ({}, "avx512_vnni", "int8"),
        ({}, "avx2", "fp32"),
        ({"PRECISION": "fp32"}, "avx512_vnni", "fp32"),
        ({"PRECISION": "int8"}, "avx2", "int8"),
    ],
)
def test_the_variable_goes_before_the_cpu(asked: dict[str, str], flags: str, precision: Precision) -> None:
    choice = choose_precision(asked, x86(flags))
    assert choice.precision == precision
    assert precision in choice.sentence
    assert ("may overflow" in choice.sentence) == (precision == "int8" and flags == "avx2")


def test_a_precision_that_is_none_is_refused() -> None:
    with pytest.raises(ModelError, match="PRECISION=bf16 is none of the choices: take fp32 or int8"):
        choose_precision({"PRECISION": "bf16"}, "")


def test_the_models_of_each_precision_compute_in_it() -> None:
    profiles = load_profiles(MODELS_FILE)
    for of_service in MODELS.values():
        served = {precision: profiles[name] for precision, name in of_service.items()}
        assert {name: profile.kind for name, profile in served.items()} == dict.fromkeys(served, served["fp32"].kind)
        assert getattr(served["int8"], "precision") == "int8-static"  # noqa: B009  # of a union of kinds
        assert served["fp32"].default
        assert not served["int8"].default


def test_make_models_fetches_the_precision_and_reports_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PRECISION", "int8")
    assert main(["--directory", str(tmp_path)]) == 0
    assert {folder.name for folder in tmp_path.iterdir() if folder.is_dir()} == {
        of_service["int8"] for of_service in MODELS.values()
    }
    assert capsys.readouterr().out.startswith("Encoders and re-ranker in int8: PRECISION asks for it")
    monkeypatch.setenv("PRECISION", "int4")
    assert main(["--directory", str(tmp_path)]) == 1
