#ifndef ACCEL_CORE_TRACKING_PLUGIN_ACCEL_TRACKER_H_
#define ACCEL_CORE_TRACKING_PLUGIN_ACCEL_TRACKER_H_

/* A tracker of your own: a shared object that exports accel_tracker_get_plugin. The node's operator
 * registers it with `acceld --tracker_plugin /path/to/it.so@sha256:<digest>`; a job then names it
 * in `tracking.log_with`, or in `tracking.trackers` as `custom: {name: ...}` with options. C, so
 * that any language can make one. deploy/examples/tracker has an example.
 *
 * It runs in a process of its own, one for each job that uses it: it may wait, fail or crash
 * without harm to the job. Its calls come from one thread. A call that returns ACCEL_RETRY, takes
 * longer than 30 seconds or ends the process comes again after a wait, with the same values; after
 * the end of the process, behind a new start and store_init_configuration. So a row may come more
 * than once, the last ones of a log at most; `sequence` tells rows apart and grows. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACCEL_TRACKER_ABI_VERSION 1

/* 0 is what an attribute holds that was not set. */
enum { ACCEL_UNSET = 0, ACCEL_NO = 1, ACCEL_YES = 2 };

/* What a call comes to. */
enum {
  ACCEL_OK = 0,
  /* It failed and may succeed later. */
  ACCEL_RETRY = 1,
  /* It fails for good: nothing more comes until someone runs `accelctl trackers sync`. */
  ACCEL_REFUSED = 2
};

/* What becomes of a run's points where a job goes back to a checkpoint and trains steps again. */
enum {
  /* The repeated ones come too, and take the place of the first. */
  ACCEL_TAKES_LAST = 0,
  /* The first ones stay, the repeated ones do not come. */
  ACCEL_KEEPS_FIRST = 1,
  /* on_rewind, which must be there, voids all points from its step on. */
  ACCEL_VOIDS = 2
};

enum { ACCEL_SUCCEEDED = 0, ACCEL_FAILED = 1, ACCEL_CANCELLED = 2 };

enum { ACCEL_NONE = 0, ACCEL_BOOL = 1, ACCEL_INTEGER = 2, ACCEL_NUMBER = 3, ACCEL_TEXT = 4 };

/* A value with its key. Texts are UTF-8, end with a NUL and live for the call only. */
typedef struct accel_value {
  const char* key;
  /* Name within a map of numbers under `key`; NULL for a value that stands alone. */
  const char* part;
  /* ACCEL_NONE, ... */
  int32_t kind;
  /* Of ACCEL_BOOL (0 or 1) and ACCEL_INTEGER. */
  int64_t integer;
  /* Of ACCEL_NUMBER; may be NaN or infinite. */
  double number;
  /* Of ACCEL_TEXT. */
  const char* text;
} accel_value;

typedef struct accel_option {
  const char* name;
  const char* value;
} accel_option;

/* The run that a job is. */
typedef struct accel_run {
  const char* project;
  const char* job;
  /* Unique for ever; the same in each process of this job. */
  const char* uid;
  /* A private folder that exists; NULL unless requires_logging_directory. */
  const char* folder;
  /* The node's secret with the tracker's name; NULL where there is none. */
  const char* secret;
  /* CustomTracker.options. */
  const accel_option* options;
  size_t option_count;
  /* Step from which a run that was interrupted goes on; NULL for a new one. */
  const int64_t* resume_step;
} accel_run;

/* Values that were measured together: a row of the job's record. */
typedef struct accel_row {
  int64_t sequence;
  int64_t step;
  /* Seconds since 1970. */
  double time;
  /* Attempt of the job; a later one may train steps again. */
  int32_t attempt;
  /* -1 for a row of the whole job. */
  int32_t rank;
  const accel_value* values;
  size_t value_count;
} accel_row;

/* Where a call puts the reason of what is not ACCEL_OK: at most `size` bytes with the NUL. Never
 * the secret. */
typedef struct accel_error {
  char* text;
  size_t size;
} accel_error;

/* Yours. */
typedef struct accel_tracker accel_tracker;

/* The attributes and methods of Accelerate's GeneralTracker. Those marked "required" must be set.
 */
typedef struct accel_tracker_plugin {
  /* Required: ACCEL_TRACKER_ABI_VERSION. */
  uint32_t abi_version;
  /* Required: 1 to 64 letters, digits, "_" and "-". */
  const char* name;
  /* Required: ACCEL_YES or ACCEL_NO. */
  int32_t requires_logging_directory;
  /* Whether rows of single ranks other than rank 0 are kept from it. ACCEL_UNSET: ACCEL_YES. */
  int32_t main_process_only;
  /* ACCEL_TAKES_LAST, ... */
  int32_t rewind;

  /* Required: opens the run and sets `*tracker`. */
  int32_t (*start)(const accel_run* run, accel_tracker** tracker, accel_error error);
  /* The job's configuration: after start, before the first log. */
  int32_t (*store_init_configuration)(accel_tracker* tracker, const accel_value* values,
                                      size_t count, accel_error error);
  /* Required: rows in the record's order. */
  int32_t (*log)(accel_tracker* tracker, const accel_row* rows, size_t count, accel_error error);
  /* The next rows train the steps from `step` on again; may come twice for the same step. Required
   * with ACCEL_VOIDS. */
  int32_t (*on_rewind)(accel_tracker* tracker, int64_t step, accel_error error);
  /* Required: hands everything over and closes the run. `outcome` is ACCEL_SUCCEEDED, ... */
  int32_t (*finish)(accel_tracker* tracker, int32_t outcome, accel_error error);
  /* Frees what start has made; the last call. */
  void (*close)(accel_tracker* tracker);
} accel_tracker_plugin;

/* What the shared object exports. The result must stay valid. */
const accel_tracker_plugin* accel_tracker_get_plugin(void);

#ifdef __cplusplus
}
#endif

#endif /* ACCEL_CORE_TRACKING_PLUGIN_ACCEL_TRACKER_H_ */
