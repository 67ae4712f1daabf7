"""What follows from what the hosts say: go, stop, the verdict, leave. Pure, given the time.

One object for a job, on the leader; a job of one host has one too, and nobody else to ask.
It goes through its phases in one direction:

    GATHER ──all have joined──► PREPARE ──all are ready──► RUN
    any of them ──a host has failed, or all are over──► END ──all have reported──► LEAVE
"""

from __future__ import annotations

from collections.abc import Sequence

from muster.channel import message as msg
from muster.channel import relay
from muster.channel.agreement import HostFacts, disagreement, notes, nprocs
from muster.channel.consultation import Consultation
from muster.channel.council import Council
from muster.channel.outbox import Outbox
from muster.channel.phases import Limits, Phase
from muster.channel.rollcall import given_up
from muster.channel.roster import HostState, Roster
from muster.channel.straggling import stalled
from muster.channel.verdict import lost_cause, root_cause, told_cause
from muster.channel.wire import Message, WireError
from muster.errors import STATUS_OF_KIND, Kind
from muster.model import Cause

_DUMP_S = 1.0
"""What the ranks that are still running get to show their stacks."""


class Coordinator:
    """The leader's mind.

    Args:
        hosts: the job's hosts in their order; the first leads.
        limits: times.
        now: seconds of a monotonic clock, as in every other call.
    """

    def __init__(self, hosts: Sequence[str], limits: Limits, now: float) -> None:
        self.phase = Phase.GATHER
        self.roster = Roster(hosts)
        self.outbox = Outbox(self.roster)
        self.verdict: Message | None = None
        self.remarks: tuple[str, ...] = ()
        """What the agreement has found odd."""
        self.reasons: dict[str, str] = {}
        """Why missing hosts are not here, as far as that is known."""
        self._council = Council()
        self._consultation = Consultation()
        self._began = now
        self._limits = limits
        self._due: dict[str, float] = {"rollcall": now + limits.rollcall}
        self._stop: Message | None = None
        self._now = now

    def hear(self, name: str, message: Message, now: float) -> None:
        """Takes in what a host says.

        Raises:
            WireError: it makes no sense; nothing has been changed by it.
        """
        listen = {
            "ready": self._on_ready,
            "failed": self._on_failed,
            "stop": self._on_stop,
            "ranks": self._on_ranks,
            "stacks": self._on_stacks,
            "over": self._on_over,
            "reported": self._on_reported,
            "agree": self._on_agree,
            **dict.fromkeys(("tell", "answer"), self._on_consult),
            **dict.fromkeys(relay.KINDS, self._on_relay),
        }.get(str(message.get("type")))
        if listen is None:
            raise WireError(f"an unknown message {message.get('type')!r}"[:80])
        if not self.roster[name].joined:
            raise WireError("a message before it has joined")
        self._now = now
        listen(self.roster[name], message)

    def join(self, name: str, facts: HostFacts | None, offset: float, now: float) -> None:
        """A host is here.

        Args:
            name: the host.
            facts: what it knows of the job; None when it has failed too early to know.
            offset: seconds that its clock is ahead of the leader's.
            now: the time.
        """
        self._now = now
        host = self.roster[name]
        host.joined, host.facts, host.offset = True, facts, offset
        host.forgotten = False
        if self.verdict is not None:
            self.outbox.send(name, self.verdict)
        elif self._stop is not None:
            self.outbox.send(name, self._stop)
        elif not self.roster.missing and self.roster.all_well:
            self._agree()

    def lose(self, name: str, how: str, now: float, since: float) -> None:
        """A host is gone, without having been let go.

        Args:
            name: the host.
            how: what is known of it, as the end of "host NAME was lost: …".
            now: the time.
            since: seconds since the epoch, when it was last heard of.
        """
        self._now = now
        host = self.roster[name]
        if host.lost:
            return
        host.lost = True
        if self.verdict is not None:
            self._leave_when_all_reported()
            return
        # What it had said itself may be why it is gone.
        host.cause = host.cause or lost_cause(name, how, since)
        self._weigh(host.cause)

    def tick(self, now: float) -> None:
        """Does what is due."""
        self._now = now
        for what in [name for name, at in self._due.items() if now >= at]:
            if self._due.pop(what, None) is not None:
                {
                    "rollcall": self._give_up_gathering,
                    "settle": self._conclude_by_root,
                    "straggle": self._ask_for_stacks,
                    "stalled": self._conclude_as_stalled,
                    "ending": self._leave,
                    "unagreed": self._remind,
                }[what]()

    def next_due(self) -> float | None:
        """When `tick` has something to do, on the clock of `now`."""
        return min(self._due.values(), default=None)

    def _agree(self) -> None:
        """All are here: they begin, unless they describe different jobs."""
        facts = self.roster.facts()
        if difference := disagreement(facts):
            remedy = "All hosts need the same image, settings and contract files."
            self._conclude_for("rollcall", difference, remedy)
            return
        self.remarks = notes(facts)
        self.phase = Phase.PREPARE
        self._due.pop("rollcall", None)
        world = facts[self.roster.leader].world
        port, sizes = facts[world[0]].master_port, list(nprocs(facts, world))
        self.outbox.send_all({"type": "welcome", "master_port": port, "nprocs": sizes})

    # What the hosts say.

    def _on_ready(self, host: HostState, message: Message) -> None:
        host.launcher, host.ready = msg.text(message, "launcher", 40), True
        if self.phase is not Phase.PREPARE or self.roster.unready or not self.roster.all_well:
            return
        if difference := self.roster.different_launchers():
            remedy = "Set MUSTER_LAUNCHER, or the SDK's `distribution`, alike on all hosts."
            self._conclude_for("plan", difference, remedy)
            return
        self.phase = Phase.RUN
        self.outbox.send_all({"type": "go"})

    def _on_failed(self, host: HostState, message: Message) -> None:
        cause = told_cause(host, message)
        if cause is None:
            raise WireError("a failure without a cause")
        if self.verdict is None:
            host.cause = cause
            self._weigh(cause)

    def _on_stop(self, host: HostState, message: Message) -> None:
        number = int(msg.number(message, "signum"))
        if self._stop or self.verdict is not None:
            return
        # From here on each host ends in its own time, and has the longer one for it.
        self._stop = {"type": "stop", "signum": number, "host": host.name}
        self._due = {}
        self.roster.forget_missing()
        self.outbox.send_all(self._stop, but=host.name)

    def _on_ranks(self, host: HostState, message: Message) -> None:
        host.done = int(msg.number(message, "done"))
        host.living = int(msg.number(message, "living"))
        if not self._limits.straggle or self._stop or self.verdict is not None:
            return
        self._due.pop("straggle", None)
        self._due.pop("stalled", None)
        # From the last end on: a slow evaluation on rank 0 is not at once a hang.
        if any(h.done for h in self.roster) and any(h.living for h in self.roster):
            self._due["straggle"] = self._now + self._limits.straggle

    def _on_stacks(self, host: HostState, message: Message) -> None:
        rank = int(msg.number(message, "rank"))
        host.stacks.append(f"rank {rank} on {host.name}:\n{msg.text(message, 'text')}")

    def _on_over(self, host: HostState, message: Message) -> None:
        cause = told_cause(host, message)
        host.over, host.living = True, 0
        if self.verdict is None:
            host.cause = cause or host.cause
            self._weigh(cause)

    def _on_reported(self, host: HostState, _message: Message) -> None:
        host.reported = True
        self._leave_when_all_reported()

    def _on_agree(self, host: HostState, message: Message) -> None:
        self._council.hear(host.name, message, self._now)
        for name, answer in self._council.answers():
            self.outbox.send(name, answer)
        self._remind()

    def _on_consult(self, host: HostState, message: Message) -> None:
        hosts = [each.name for each in self.roster]
        for name, said in self._consultation.hear(host.name, message, hosts):
            self.outbox.send(name, said)

    def _on_relay(self, host: HostState, message: Message) -> None:
        running = self.phase is Phase.RUN and not self._stop
        refusal = "" if running else "the job's ranks have not begun, or are ending"
        relay.relay(self.roster, host.name, message, self.outbox.send, refusal)

    # What is due.

    def _give_up_gathering(self) -> None:
        absent, waited = self.roster.missing, self._now - self._began
        self.roster.forget_missing()
        text = given_up(absent, len(self.roster), self.reasons, waited)
        self._conclude_for("rollcall", *text)

    def _remind(self) -> None:
        for name, reminder in self._council.reminders(self._now):
            self.outbox.send(name, reminder)
        self._due.pop("unagreed", None)
        if (due := self._council.next_due()) and self.phase is Phase.RUN and not self._stop:
            self._due["unagreed"] = due

    def _ask_for_stacks(self) -> None:
        for host in self.roster:
            if host.living:
                self.outbox.send(host.name, {"type": "dump"})
        self._due["stalled"] = self._now + _DUMP_S

    def _conclude_as_stalled(self) -> None:
        self._conclude(stalled(self.roster, self._limits.straggle))

    def _conclude_by_root(self) -> None:
        self._conclude(root_cause(self.roster.causes()))

    # What follows.

    def _weigh(self, cause: Cause | None) -> None:
        """The verdict comes when all are over, or an earlier cause has had its time to come."""
        if self.roster.all_gone:
            self._conclude_by_root()
        elif cause and not self._stop:
            patience = self._limits.echo if cause.echo or cause.asked else self._limits.settle
            self._due["settle"] = min(self._due.get("settle", float("inf")), self._now + patience)

    def _conclude_for(self, kind: Kind, headline: str, remedy: str) -> None:
        status = STATUS_OF_KIND[kind]
        self._conclude(Cause(headline, kind, status, self.roster.leader, remedy=remedy))

    def _conclude(self, cause: Cause | None) -> None:
        self.verdict = {"type": "verdict", "cause": msg.pack_cause(cause)}
        self.phase = Phase.END
        self._due = {"ending": self._now + self._limits.ending}
        if self._stop or (cause and cause.kind == "signal"):
            self.roster.forget_missing()
        self.outbox.send_all(self.verdict)
        self._leave_when_all_reported()

    def _leave_when_all_reported(self) -> None:
        if self.phase is Phase.END and self.roster.all_reported:
            self._leave()

    def _leave(self) -> None:
        self.phase = Phase.LEAVE
        self._due = {}
        self.outbox.send_all({"type": "leave"})
