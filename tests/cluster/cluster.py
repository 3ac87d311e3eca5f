"""Runs a Kubernetes cluster of one node as child processes: API server first, then what a node needs.

It expects namespaces of its own for processes, mounts and the network (tests/cluster/__main__.py), with fixed ports and
the usual paths below /run and /var. All components share the token of one administrator.
"""

import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from tests.cluster import programs
from tests.support.certificates import Certificates
from tests.support.images import Yaml

NODE = "node"
ADDRESS = "10.204.0.1"
PODS, SERVICES = "10.202.0.0/16", "10.203.0.0/16"
API_ADDRESS, DNS_ADDRESS = "10.203.0.1", "10.203.0.10"
CONTAINERD = "/run/containerd/containerd.sock"
# Files that kubelet writes for the whole machine; copies hide them, so that the machine keeps its values.
MACHINE_SETTINGS = ("kernel/panic", "kernel/panic_on_oops", "vm/overcommit_memory", "vm/panic_on_oom")
# Where they write without being asked; an overlay takes it.
OVERLAID = ("/etc", "/var/lib", "/var/log")


class Refused(Exception):
    """A command of the cluster failed; the message has what it printed."""


def run(*command: str | Path, given: str | None = None, timeout_s: float = 300) -> str:
    """Runs a command and returns what it printed. Raises Refused."""
    done = subprocess.run(
        list(map(str, command)), input=given, capture_output=True, text=True, check=False, timeout=timeout_s
    )
    if done.returncode:
        raise Refused(f"{' '.join(map(str, command))[:200]}: {done.stderr}")
    return done.stdout


def wait_for(what: str, condition: Callable[[], bool], within_s: float = 120, every_s: float = 0.5) -> float:
    """Waits until a condition holds and returns the seconds that it took. Raises Refused with `what`."""
    started = time.monotonic()
    while not condition():
        if time.monotonic() - started > within_s:
            raise Refused(f"{what}: not within {within_s:.0f} s")
        time.sleep(every_s)
    return time.monotonic() - started


class Cluster:
    """A cluster whose files are in a folder of its own. It ends with the namespace of processes that it runs in."""

    def __init__(self, home: Path, cgroup: str) -> None:
        self.home = home
        self._cgroup = cgroup
        self._token = secrets.token_hex(16)
        self._certificates = Certificates(home, "kubernetes")
        self._kubeconfig = home / "kubeconfig"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        os.environ["KUBECONFIG"] = str(self._kubeconfig)
        (home / "logs").mkdir()

    def kubectl(self, *words: str | Path, given: str | None = None, timeout_s: float = 300) -> str:
        """Runs kubectl and returns what it printed. Raises Refused."""
        return run(programs.path("kubectl"), *words, given=given, timeout_s=timeout_s)

    def get(self, *words: str) -> list[Yaml]:
        """The objects that `kubectl get` finds."""
        found = json.loads(self.kubectl("get", *words, "-o", "json"))
        return list(found["items"]) if found["kind"] == "List" else [found]

    def apply(self, *objects: Yaml) -> None:
        """Applies objects."""
        self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(objects))

    def start(self, name: str, program: str, *flags: str, environment: Mapping[str, str] | None = None) -> None:
        """Starts a program; its output goes to logs/."""
        with (self.home / "logs" / f"{name}.log").open("ab") as log:
            variables = os.environ | (environment or {})
            self._running[name] = subprocess.Popen([program, *flags], stdout=log, stderr=log, env=variables)

    @property
    def ended(self) -> list[str]:
        """The programs that ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def last_lines(self, name: str) -> str:
        """The end of a program's log."""
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")[-3000:]

    def start_api(self) -> float:
        """Starts etcd and the API server; returns the seconds until it was ready."""
        _own_network()
        pair = self._certificates.issue(NODE, "127.0.0.1", ADDRESS, API_ADDRESS, "kubernetes.default.svc")
        (self.home / "tokens.csv").write_text(f"{self._token},admin,admin,system:masters\n")
        self._kubeconfig.write_text(yaml.safe_dump(self._access(f"https://{ADDRESS}:6443")))
        self.start("etcd", "etcd", f"--data-dir={self.home}/etcd", "--unsafe-no-fsync")
        self.start(
            "kube-apiserver",
            programs.path("kube-apiserver"),
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={ADDRESS}",
            f"--service-cluster-ip-range={SERVICES}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.home}/tokens.csv",
            f"--tls-cert-file={pair.cert}",
            f"--tls-private-key-file={pair.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pair.cert}",
            f"--service-account-signing-key-file={pair.key}",
            f"--cert-dir={self.home}",
            "--allow-privileged",
            "--enable-aggregator-routing",
        )
        self._controller_flags = (f"--service-account-private-key-file={pair.key}",)
        return wait_for("the API server", self._answers)

    def _answers(self) -> bool:
        if self.ended:
            raise Refused("\n".join(f"{name} ended: {self.last_lines(name)}" for name in self.ended))
        try:
            return self.kubectl("get", "--raw", "/readyz") == "ok"
        except Refused:
            return False

    def _access(self, server: str) -> Yaml:
        cluster = {"server": server, "certificate-authority": str(self._certificates.ca_file)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }

    def start_node(self, images: Sequence[Path], sandbox_image: str) -> float:
        """Starts controllers, scheduler and the node with these images; returns the seconds until it was Ready."""
        self._start_containerd(sandbox_image)
        for archive in images:
            run("ctr", "--namespace=k8s.io", "images", "import", archive)
        access = f"--kubeconfig={self._kubeconfig}"
        self.start(
            "kube-controller-manager",
            programs.path("kube-controller-manager"),
            access,
            f"--root-ca-file={self._certificates.ca_file}",
            "--leader-elect=false",
            "--horizontal-pod-autoscaler-sync-period=5s",
            *self._controller_flags,
        )
        self.start("kube-scheduler", programs.path("kube-scheduler"), access, "--leader-elect=false")
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": self._cgroup,
            "clusterDNS": [DNS_ADDRESS],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            "resolvConf": "/dev/null",
        }
        (self.home / "kubelet.yaml").write_text(yaml.safe_dump(settings))
        self.start(
            "kubelet",
            programs.path("kubelet"),
            access,
            f"--config={self.home}/kubelet.yaml",
            f"--root-dir={self.home}/kubelet",
            f"--hostname-override={NODE}",
            f"--node-ip={ADDRESS}",
        )
        self.start(
            "kube-proxy",
            programs.path("kube-proxy"),
            access,
            f"--hostname-override={NODE}",
            f"--cluster-cidr={PODS}",
            "--oom-score-adj=0",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0s",
            "--conntrack-tcp-timeout-close-wait=0s",
        )
        seconds = wait_for("the node", lambda: any(_ready(node) for node in self.get("nodes")))
        self.start(
            "kube-router",
            programs.path("kube-router"),
            access,
            f"--hostname-override={NODE}",
            f"--service-cluster-ip-range={SERVICES}",
            "--run-router=false",
            "--run-service-proxy=false",
            "--run-loadbalancer=false",
            "--run-firewall=true",
        )
        return seconds

    def _start_containerd(self, sandbox_image: str) -> None:
        network = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "ptp",
                    "ipam": {
                        "type": "host-local",
                        "ranges": [[{"subnet": PODS}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                }
            ],
        }
        folder = Path("/etc/cni/net.d")
        folder.mkdir(parents=True)
        (folder / "10-pods.conflist").write_text(json.dumps(network))
        settings = self.home / "containerd.toml"
        settings.write_text(f"""\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox_image}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
""")
        self.start("containerd", "containerd", f"--config={settings}", f"--root={self.home}/containerd")
        wait_for("containerd", Path(CONTAINERD).exists)


def _ready(node: Yaml) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in node["status"].get("conditions", []))


def own_machine(home: Path, cgroup: str) -> None:
    """Hides from the machine what a cluster's programs write outside of their folders: in namespaces of its own."""
    run("mount", "--make-rshared", "/")
    for folder in OVERLAID:
        upper, work = (home / "machine" / f"{folder.replace('/', '.')[1:]}.{part}" for part in ("files", "work"))
        upper.mkdir(parents=True)
        work.mkdir()
        run("mount", "-t", "overlay", "-o", f"lowerdir={folder},upperdir={upper},workdir={work}", "overlay", folder)
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    for name in MACHINE_SETTINGS:
        setting = Path("/proc/sys") / name
        mine = home / "machine" / name.replace("/", ".")
        mine.write_text(setting.read_text())
        run("mount", "--bind", mine, setting)
    for controller in Path("/sys/fs/cgroup").iterdir():
        (controller / cgroup.lstrip("/")).mkdir()


def _own_network() -> None:
    """A pair of interfaces that leads nowhere: services have addresses to route to, and nothing leaves."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node1")
    run("ip", "address", "add", f"{ADDRESS}/24", "dev", "node0")
    for name in ("node0", "node1"):
        run("ip", "link", "set", name, "up")
    run("ip", "route", "add", SERVICES, "dev", "node0")
