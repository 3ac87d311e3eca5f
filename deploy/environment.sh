#!/usr/bin/env bash
# environment.sh FOLDER [PYTHON]: makes the virtual environment FOLDER, if there is none that works.
#
# Takes the newest fitting Python on the PATH, or PYTHON (a command or a path). A working environment stays as it is,
# whatever else is installed since, unless PYTHON names another interpreter. Installs no packages.
set -euo pipefail

folder=$1
named=${2:-}
# Python 3.N for which every package in requirements.lock has a wheel. Of 3.15, numpy, onnxruntime and eight more lack one.
oldest=11
newest=14
range="3.$oldest to 3.$newest"
# Its minor version, its full version, whether it can make an environment with pip in it, where it is installed.
probe='
import sys
assert sys.version_info[0] == 3
try:
    import ensurepip, venv
    able = "able"
except ImportError:
    able = "unable"
print(sys.version_info[1], "%d.%d.%d" % sys.version_info[:3], able, sys.base_prefix)'

fail() {
	printf '%s\n' "$@" >&2
	exit 1
}

# Sets minor, full, able and prefix to what a command says of itself. False when it does not run, as the shims of pyenv
# do not for versions that are not chosen.
ask() {
	local answer
	answer=$("$1" -c "$probe" 2>/dev/null) && read -r minor full able prefix <<<"$answer" && [[ -n $prefix ]]
}

make_environment() {
	ask "$1"
	[[ $able == able ]] ||
		fail "Python $full ($1) cannot make a virtual environment: its venv module comes without pip." \
			"On Debian and Ubuntu: apt-get install python3.$minor-venv, then the same again."
	echo "Setting up $folder with Python $full ($1) ..."
	"$1" -m venv --clear "$folder"
	touch "$folder/.python"
	exit 0
}

wanted=
if [[ -n $named ]]; then
	ask "$named" || fail "PYTHON=$named does not run as a Python 3; name a command or a path, as in PYTHON=/usr/bin/python3.13."
	((minor >= oldest)) || fail "PYTHON=$named is Python $full; $range is needed."
	((minor <= newest)) ||
		echo "Python $full is newer than $range: packages that have no wheel for it yet are built from source." >&2
	wanted="$full $prefix"
fi

if ask "$folder/bin/python" && ((minor >= oldest)) && "$folder/bin/python" -c 'import pip' 2>/dev/null; then
	if [[ -z $wanted || $wanted == "$full $prefix" ]]; then
		[[ -e $folder/.python ]] || touch "$folder/.python"
		exit 0
	fi
fi

[[ -z $named ]] || make_environment "$named"

best=
best_minor=0
unable=
found=()
for name in python3 python $(seq -f 'python3.%g' $oldest $newest); do
	# All of a name: behind a shim that does not run there may be one that does.
	while read -r candidate; do
		[[ $candidate != "$PWD/$folder/"* ]] && ask "$candidate" || continue
		if ((minor < oldest || minor > newest)); then
			found+=("$full ($candidate)")
		elif [[ $able == unable ]]; then
			unable=$candidate
		elif ((minor > best_minor)); then
			best=$candidate
			best_minor=$minor
		fi
	done < <(type -ap "$name" || true)
done

[[ -z ${best:-$unable} ]] || make_environment "${best:-$unable}"
fail "This needs Python $range, and none runs here. Found: $(IFS=,; echo "${found[*]:-nothing}")." \
	"Install one (Debian, Ubuntu: apt-get install python3 python3-venv), or name one: make PYTHON=/path/to/python3.13 ..."
