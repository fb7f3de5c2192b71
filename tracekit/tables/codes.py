"""The codes of the quality table: each stable, each with what it means and what to do."""

CODES: dict[str, tuple[str, str]] = {
    # the bytes
    "bom": ("a byte order mark stands before the JSON", "nothing: it was skipped"),
    "utf16": ("the file is UTF-16", "nothing: it was transcoded; PowerShell's redirection writes it"),
    "gzip_truncated": ("the gzip data ends early", "let the recorder finish; copy the file again"),
    "gzip_damaged": ("the gzip data is damaged", "copy the file again; what decoded before was kept"),
    "gzip_checksum": (
        "the gzip checksum does not match",
        "copy the file again; some of the data may be wrong",
    ),
    "gzip_trailing": ("bytes follow the gzip data", "nothing: they were ignored"),
    "truncated": ("the file ends inside the events", "let the recorder finish; complete events were kept"),
    "event_array": (
        "a bare array of events, without metadata",
        "give the whole trace if there is one: device and options are unknown",
    ),
    "unclosed_array": (
        "a bare array that never closes",
        "nothing: viewers allow it; complete events were kept",
    ),
    "second_document": (
        "further traces follow in the same file",
        "several ranks wrote one file: record one file a rank",
    ),
    "trailing_junk": ("bytes follow the trace", "nothing: they were ignored"),
    "metadata_damaged": (
        "the fields around the events are not valid JSON",
        "check device and options: what could be told was kept",
    ),
    "unreadable_events": (
        "events that no repair made valid JSON were dropped",
        "record again if they are many",
    ),
    "not_a_number": ("NaN, Infinity or N/A instead of values", "nothing: they were read as absent"),
    "bad_utf8": ("bytes that are not UTF-8 in a text", "nothing: they were replaced"),
    "lone_backslash": ("backslashes that escape nothing", "nothing: they were taken literally"),
    "control_characters": ("raw control characters inside texts", "nothing: they became spaces"),
    "trailing_comma": ("commas before a closing bracket", "nothing: they were dropped"),
    "inner_quotes": ("unescaped quotes inside a name", "keep quotes out of record_function names"),
    # the events
    "bad_time": ("events without a usable time", "they were kept out; many of them mean a damaged recording"),
    "unknown_category": (
        "events of unknown categories were left out",
        "tell the project which recorder wrote them",
    ),
    "paired_events": ("begin and end events were joined", "nothing"),
    "unpaired_events": ("begin or end events without a partner", "they were left out"),
    "absurd_duration": ("device events of an hour and more", "overflows, kept out: record again"),
    "ts_zero": (
        "device events at the clock's zero",
        "they lost their time and were kept out; a shorter window helps",
    ),
    "outside_window": ("device events far outside the recording", "they were kept out"),
    "overrun": (
        "device events that overran their successor on the stream",
        "they were cut at its start; look at them before you believe them",
    ),
    "suspect_duration": (
        "device events of a second and more among microseconds",
        "look at them before you believe a sum",
    ),
    # of databases (nsys, rocpd)
    "graph_opaque": (
        "graph replays recorded whole, without their kernels",
        "record with nsys profile --cuda-graph-trace=node",
    ),
    "open_ranges": (
        "ranges that never ended",
        "nothing: they were left out; the recording ended inside them",
    ),
    "crossing_ranges": (
        "ranges that end on another thread than they began on",
        "they count for the thread of their start: prefer push/pop ranges",
    ),
    "nameless_ranges": ("ranges without a text", "nothing: they were left out"),
    "recorder_warnings": (
        "the recorder warned while it recorded",
        "look at the report's diagnostics in nsys-ui",
    ),
    "counters_unplaced": (
        "counter values of no dispatch or no counter in the file",
        "record with rocprofv3 --kernel-trace beside --pmc",
    ),
    "summary_by_range": (
        "NVTX ranges of a summary whose kernels were not counted, since they may have been already",
        "give the SQLite export, or the report cuda_gpu_kern_sum for exact sums",
    ),
    "summary_only": (
        "kernels from a summary: averages laid end to end",
        "give the SQLite export: it has times, launches and phases",
    ),
    "several_processes": (
        "several processes in one capture",
        "nothing: launches and kernels were joined within each",
    ),
    # what is missing, and what is inflated
    "no_kernels": (
        "a GPU is listed and no GPU work was recorded",
        "check that the process may use CUPTI or roctracer; record again",
    ),
    "unlinked": (
        "device events without a launch record",
        "start the window before the work: they were launched before it, or records were lost",
    ),
    "before_window": (
        "kernels launched before the window",
        "their phase is unknown; start the window earlier",
    ),
    "graph_records_lost": (
        "graphs were replayed and none of their kernels recorded",
        "do not believe decode numbers of this trace; use a newer profiler, or run without graphs",
    ),
    "profiler_gaps": (
        "idle time that the profiler itself made",
        "record a shorter window, or skip its first steps",
    ),
    "capture_trace": (
        "launches without kernels: a graph's capture",
        "give it with --donor beside the trace of the replay",
    ),
    "kernel_before_launch": (
        "device events start before their launch",
        "do not trust launch latencies: clocks disagree",
    ),
    "stream_overlap": (
        "kernels overlap on one stream",
        "nothing where kernels use programmatic dependent launch: busy time is a union",
    ),
    "recorder_overhead": (
        "the recorder inflates host time",
        "record times without stacks, shapes and memory; take shapes in a second pass",
    ),
    "ranks_missing": (
        "ranks of the job are missing",
        "give the other ranks too: waiting for them cannot be told apart",
    ),
    "steps_without_kernels": (
        "steps with tokens and no kernel",
        "device records cover a part of the window: shorten it",
    ),
    "shapes_unaligned": (
        "ops without a twin in the shape pass",
        "collect again: the two passes did not do the same work",
    ),
    # what was inferred
    "no_steps": ("no step was found", "record with annotations: the line says how"),
    "steps_inferred": (
        "steps carry no annotation and were inferred",
        "record with annotations: the line says how",
    ),
    "tokens_assumed": (
        "generating requests whose tokens the annotation does not give: one each is assumed",
        "with speculative decoding, read work and token rates of these steps as lower bounds",
    ),
    "step_phase_unknown": ("steps whose phase nothing tells", "record with annotations: the line says how"),
    "phase_unknown": (
        "kernels whose phase nothing tells",
        "record with annotations, or give the whole window",
    ),
    "ramp_up": ("steps left out on request", "leave --steady out to have them back"),
    "training": ("kernels of backward or optimizer work", "nothing: they have the phase other"),
    "phase_conflict": (
        "an engine's label disagrees with decisive kernels",
        "look at these steps: the label may name another mode",
    ),
    "phase_evidence_split": (
        "kernels of one step point to different phases",
        "look at these steps: they may be mixed",
    ),
    "tensor_parallel": (
        "the model's dimensions were divided among ranks",
        "give --tp where the ranks share it otherwise",
    ),
    "device": ("how the device was matched", "give --device NAME where it is wrong"),
    "no_ceilings": ("no ceilings are known for the device", "give --device NAME, or --peak and --dram"),
    "model_identified": (
        "the recorded sizes agree with one model preset alone",
        "give --model where it is another model",
    ),
    "experts_expected": (
        "kernels whose weights are those of as many experts as uniform routing would touch, since no recorder writes which",
        "nothing: an upper value; counters measure what was read",
    ),
    "kv_slope": (
        "attention's time grows with the key tokens of decode steps: the rate of reading the cache, without sizes",
        "give --model for the rate, where it is not said",
    ),
    "work_unknown": (
        "kernels whose operations and bytes nothing tells",
        "record shapes, or give --donor or --model: the line says which",
    ),
    # hardware counters
    "counter_rows": (
        "rows of counters do not fit their header, or are too many",
        "print them to a file of their own with --log-file, or profile fewer launches",
    ),
    "counter_units": (
        "counters without their row of units",
        "print the report again with --page raw --print-units base",
    ),
    "counter_cells": (
        "counters that are no numbers, or in an unknown unit",
        "nothing where few: they count as failed, never as 0",
    ),
    "counter_numbers": (
        "commas that could be thousands separators or decimal marks",
        "print the report again with LC_ALL=C",
    ),
    "counter_repeats": ("launches printed twice", "nothing: each was taken once"),
    "counters_joined": ("counters were joined launch by launch", "nothing: the message says by what"),
    "counters_mean": (
        "counters of a name and grid were averaged",
        "profile the same steps of the same workload: the counts of launches differ",
    ),
    "counters_missing": ("kernels without counters", "profile the steps that ran them"),
    "counters_unused": (
        "measured launches of no kernel in the trace",
        "give the counters of the same workload; warm-up and autotuning leave some",
    ),
    "counters_ambiguous": (
        "measured launches named without template arguments",
        "profile with --kernel-name-base demangled",
    ),
    "counters_by_size": ("grids compared by their sizes alone", "use a newer Nsight Compute"),
    "counters_by_name": ("no grids to compare", "use a newer Nsight Compute"),
    "counters_matrix_only": ("operations without those of the vector units", "collect --counters flops"),
    "counters_packed": ("packed FP32 instructions among the operations", "nothing: they are a lower bound"),
    "counters_replayed": (
        "DRAM bytes collected in several passes",
        "take DRAM bytes from a single-pass run",
    ),
    "counters_total": ("counters without kernels to join them to", "give the trace of the same run too"),
    # the collection
    "collector_note": (
        "what the collector noted of the run",
        "collect again where the message names a cause; figures of a busy machine are low",
    ),
}
