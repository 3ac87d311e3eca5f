"""Runs a Kubernetes cluster as child processes: the API server first, then nodes, each in a network of its own.

It expects namespaces of its own for processes, mounts and the network (tests/cluster/__main__.py), so that ports are
fixed and paths below /run and /var the usual ones. All components share the token of one administrator.
"""

import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from tests.cluster import programs
from tests.support.certificates import Certificates
from tests.support.images import Yaml

ADDRESS = "10.204.0.1"
PODS, SERVICES = "10.202.0.0/16", "10.203.0.0/16"
API_ADDRESS, DNS_ADDRESS = "10.203.0.1", "10.203.0.10"
CGROUPS = Path("/sys/fs/cgroup")
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


@dataclass(frozen=True, slots=True)
class Node:
    """A node and its network: addresses of its own for its pods, one of its end of the wire to the API server."""

    number: int

    @property
    def name(self) -> str:
        return f"node-{self.number}"

    @property
    def pods(self) -> str:
        return f"10.202.{self.number}.0/24"

    @property
    def address(self) -> str:
        return f"10.204.{self.number}.2"

    @property
    def socket(self) -> Path:
        """Where its containerd listens."""
        return Path(f"/run/{self.name}/containerd.sock")

    def inside(self, *command: str) -> tuple[str, ...]:
        """A command as it runs in the network of the node."""
        return ("nsenter", f"--net=/run/netns/{self.name}", *command)

    def connect(self) -> None:
        """Makes its network, and a wire to that of the API server, over which all nodes reach each other."""
        near, far, gateway = f"wire{self.number}", "wire", f"10.204.{self.number}.1"
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", near, "type", "veth", "peer", "name", far, "netns", self.name)
        run("ip", "address", "add", f"{gateway}/24", "dev", near)
        run("ip", "link", "set", near, "up")
        run(*self.inside("ip", "address", "add", f"{self.address}/24", "dev", far))
        for name in ("lo", far):
            run(*self.inside("ip", "link", "set", name, "up"))
        run(*self.inside("ip", "route", "add", "default", "via", gateway))
        run(*self.inside("sysctl", "--write", "net.ipv4.ip_forward=1"))
        run("ip", "route", "add", self.pods, "via", self.address)


NODES = (Node(1), Node(2))


class Cluster:
    """A cluster whose files are in a folder of its own. It ends with the namespace of processes that it runs in."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._token = secrets.token_hex(16)
        self.certificates = Certificates(home, "kubernetes")
        self._kubeconfig = home / "kubeconfig"
        self._access_flag = f"--kubeconfig={self._kubeconfig}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        os.environ["KUBECONFIG"] = str(self._kubeconfig)
        # Over a websocket, `exec` can write to a pod for a minute and no longer.
        os.environ["KUBECTL_REMOTE_COMMAND_WEBSOCKETS"] = "false"
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

    def start(self, name: str, *command: str) -> None:
        """Starts a program; its output goes to logs/."""
        with (self.home / "logs" / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log)

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
        pair = self.certificates.issue("127.0.0.1", ADDRESS, API_ADDRESS, "kubernetes.default.svc")
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
            "--kubelet-preferred-address-types=InternalIP",
            "--enable-aggregator-routing",
        )
        self._signing_key = pair.key
        return wait_for("the API server", self._answers)

    def _answers(self) -> bool:
        if self.ended:
            raise Refused("\n".join(f"{name} ended: {self.last_lines(name)}" for name in self.ended))
        try:
            return self.kubectl("get", "--raw", "/readyz") == "ok"
        except Refused:
            return False

    def _access(self, server: str) -> Yaml:
        cluster = {"server": server, "certificate-authority": str(self.certificates.ca_file)}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }

    def start_nodes(self, nodes: Sequence[Node], archive: Path, sandbox_image: str) -> float:
        """Starts controllers and nodes with the images of an archive; returns the seconds until the nodes are ready."""
        self.start(
            "kube-controller-manager",
            programs.path("kube-controller-manager"),
            self._access_flag,
            f"--root-ca-file={self.certificates.ca_file}",
            f"--service-account-private-key-file={self._signing_key}",
            "--horizontal-pod-autoscaler-sync-period=5s",
            "--leader-elect=false",
        )
        self.start("kube-scheduler", programs.path("kube-scheduler"), self._access_flag, "--leader-elect=false")
        started = time.monotonic()
        for node in nodes:
            node.connect()
            self._start_containerd(node, sandbox_image)
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(_import, archive), nodes))
        for node in nodes:
            self._start_kubelet(node)
        try:
            wait_for("the nodes", lambda: [_ready(node) for node in self.get("nodes")] == [True] * len(nodes))
        except Refused as refusal:
            raise Refused(f"{refusal}\n{self.last_lines(f'kubelet-{nodes[-1].number}')}") from refusal
        return time.monotonic() - started

    def _start_containerd(self, node: Node, sandbox_image: str) -> None:
        addresses = {"type": "host-local", "ranges": [[{"subnet": node.pods}]], "routes": [{"dst": "0.0.0.0/0"}]}
        network = {"cniVersion": "0.4.0", "name": node.name, "plugins": [{"type": "ptp", "ipam": addresses}]}
        folder = self.home / node.name
        (folder / "cni").mkdir(parents=True)
        (folder / "cni" / "10-pods.conflist").write_text(json.dumps(network))
        settings = folder / "containerd.toml"
        settings.write_text(f"""\
version = 2
root = "{folder}/containerd"
state = "{node.socket.parent}"
[grpc]
  address = "{node.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{sandbox_image}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
""")
        self.start(f"containerd-{node.number}", *node.inside("containerd", f"--config={settings}"))
        wait_for("containerd", node.socket.exists)

    def _start_kubelet(self, node: Node) -> None:
        folder = self.home / node.name
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.home.name}/{node.name}",
            "clusterDNS": [DNS_ADDRESS],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{node.socket}",
            "failCgroupV1": False,
            "failSwapOn": False,
            "oomScoreAdj": 0,
            # A kubelet removes the logs there of pods that it does not know: those of the other node.
            "podLogsDir": f"{folder}/pods",
            "resolvConf": "/dev/null",
        }
        (folder / "kubelet.yaml").write_text(yaml.safe_dump(settings))
        name = f"--hostname-override={node.name}"
        flags = {
            "kubelet": (
                f"--config={folder}/kubelet.yaml",
                f"--root-dir={folder}/kubelet",
                # Two kubelets that start at once would make one pair of files there, of two keys.
                f"--cert-dir={folder}/pki",
                f"--node-ip={node.address}",
            ),
            "kube-proxy": (
                f"--cluster-cidr={PODS}",
                "--oom-score-adj=0",
                # Of the whole machine: not to be changed from a network of its own.
                "--conntrack-max-per-core=0",
                "--conntrack-tcp-timeout-established=0s",
                "--conntrack-tcp-timeout-close-wait=0s",
            ),
        }
        for program, more in flags.items():
            command = node.inside(programs.path(program), self._access_flag, name, *more)
            self.start(f"{program}-{node.number}", *command)

    def start_policies(self, node: Node) -> None:
        """Starts what enforces network policies on a node that the API server knows."""
        command = (programs.path("kube-router"), self._access_flag, f"--hostname-override={node.name}")
        parts = ("--run-firewall=true", "--run-router=false", "--run-service-proxy=false", "--run-loadbalancer=false")
        services = f"--service-cluster-ip-range={SERVICES}"
        self.start(f"kube-router-{node.number}", *node.inside(*command, *parts, services))


def _import(archive: Path, node: Node) -> None:
    """Gives a node the images of an archive, as nothing can be pulled."""
    run("ctr", f"--address={node.socket}", "--namespace=k8s.io", "images", "import", archive)


def _ready(node: Yaml) -> bool:
    return any(item["type"] == "Ready" and item["status"] == "True" for item in node["status"].get("conditions", []))


def own_machine(home: Path) -> None:
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
    for controller in CGROUPS.iterdir():
        for node in NODES:
            (controller / home.name / node.name).mkdir(parents=True)
    # All pods together are as four processes beside the others of the machine, not as one.
    (CGROUPS / "cpu" / home.name / "cpu.shares").write_text(str(4 * 1024))


def _own_network() -> None:
    """The network of the API server leads to nodes and nowhere else."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{ADDRESS}/32", "dev", "lo")
    run("sysctl", "--write", "net.ipv4.ip_forward=1")
