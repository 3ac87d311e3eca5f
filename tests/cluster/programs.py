"""Names and builds the programs of a Kubernetes cluster: Go modules, and Debian's packages."""

import shutil

from tests.support.go_programs import GO, ProgramMissingError, go_program, programs_of_a_module

RELEASE = "v1.34.4"
CONTROL_PLANE = ("kube-apiserver", "kubectl")
NODE = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
# Without a version of its own, a component takes itself for release 0.
VERSION = f"-X k8s.io/component-base/version.gitVersion={RELEASE}"
DEBIAN = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ipset": "ipset",
    "conntrack": "conntrack",
    "prometheus": "prometheus",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}


def build(node: bool) -> None:
    """Builds what is missing into .cache/go/bin, with `node` what a node needs too. Raises ProgramMissingError."""
    wanted = (*CONTROL_PLANE, *NODE) if node else CONTROL_PLANE
    programs_of_a_module("k8s.io/kubernetes", RELEASE, [f"k8s.io/kubernetes/cmd/{name}" for name in wanted], VERSION)
    if node:
        go_program("coredns", "github.com/coredns/coredns@v1.12.4")
        go_program("kube-router", "github.com/cloudnativelabs/kube-router/v2/cmd/kube-router@v2.1.0")
    absent = [package for name, package in DEBIAN.items() if shutil.which(name) is None and (node or name == "etcd")]
    if absent:
        raise ProgramMissingError(f"apt-get install --no-install-recommends {' '.join(absent)}")


def path(name: str) -> str:
    """The program of this name, as built."""
    return str(GO / "bin" / name)
