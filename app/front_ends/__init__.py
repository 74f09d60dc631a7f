"""Several processes that answer HTTP on one port, before one process with the engine. `engine_process` starts them;
`front_end` is what they run; `codec` and `link` carry their calls."""
