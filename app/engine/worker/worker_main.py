"""The main loop of a device process: reads messages, drives the scheduler, writes answers. Run it as
`python -m app.engine.worker.worker_main FD`, where FD is one end of a socket pair; the front end holds the other. The
process exits when that end closes, however the front end died."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time

from app import logs
from app.engine.protocol import messages as m
from app.engine.worker.inspection import BackgroundResult, InspectionThread
from app.engine.worker.model_runner import DeviceUnusable, ModelLoader, ModelRunner
from app.engine.worker.scheduler import Scheduler
from models.backends.torch.cuda_report import clause
from models.child_process import ParentChannel, die_with_parent, ignore_ending_signals

log = logging.getLogger(__name__)
Channel = ParentChannel[m.ToDevice | BackgroundResult, m.FromDevice]

# Threads that read a model or inspect one give the interpreter up after so long: a step asks for it after each of its
# kernels, and would wait Python's own 5 ms each time.
SWITCH_INTERVAL_S = 0.0005


def serve(channel: Channel) -> None:
    """Serves until a Stop. An error of the device or the system is sent to the front end, which shows it, before it is
    raised; the message of any other error may quote a text."""
    channel.exit_with_parent()
    try:
        _serve(channel)
    except ConnectionError:
        raise
    except (RuntimeError, OSError, MemoryError) as error:
        channel.send([m.Ended(clause(error))])
        raise


def _serve(channel: Channel) -> None:
    config, *others = channel.receive(None)
    assert isinstance(config, m.Configure), "the first message configures the process"
    logs.set_up_logging(config.log_level, config.log_format)
    runner = ModelRunner(
        config.device,
        config.threads,
        config.slots,
        config.precision,
        config.beam,
        name=config.name,
    )
    loader = ModelLoader(runner.read, channel.put)
    inspections = InspectionThread(channel.put) if runner.device.type == "cpu" else None
    scheduler = Scheduler(
        runner, config.prefill_tokens, config.stream_interval_s, loader, inspections, config.inspection_hang_s
    )
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.collect()
    gc.freeze()  # modules live to the end: full collections between steps need not traverse them
    channel.send([m.Started(config.name)])
    run(channel, scheduler, others, config.beat_s)
    if loader.busy or (inspections is not None and inspections.busy):
        os._exit(0)  # a normal exit would tear the thread out of torch


def run(channel: Channel, scheduler: Scheduler, pending: list[m.ToDevice | BackgroundResult], beat_s: float) -> None:
    """Runs until a Stop. The loop sends its own heartbeats: a thread would send them even if the loop hangs."""
    next_beat = time.monotonic()
    while True:
        while pending:
            message = pending.pop(0)
            if isinstance(message, m.Stop):
                return
            channel.send(scheduler.handle(message))
            del message  # an idle process must not hold the network that the last message brought
        channel.send(scheduler.step())
        if (now := time.monotonic()) >= next_beat:
            channel.send([m.Heartbeat(scheduler.statistics())])
            next_beat = now + beat_s
        pending = channel.receive(0 if scheduler.busy else max(next_beat - now, 0))


def main() -> None:
    die_with_parent()
    ignore_ending_signals()
    logs.set_up_logging("warning", "text")  # until the Configure message
    try:
        serve(Channel(m.to_device))
    except ConnectionError:
        log.info("the front end is gone")
        os._exit(0)  # regardless of other threads
    except DeviceUnusable as error:
        log.error("%s cannot be used: %s", error.device, error)
        os._exit(1)
    except Exception:
        log.exception("the main loop failed")
        os._exit(1)


if __name__ == "__main__":
    main()
