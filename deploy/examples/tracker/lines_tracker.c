/* A tracker of one's own: a file with a line of JSON for each row of a job, each row once.
 *
 *   cc -shared -fPIC -O2 -Wall -I core/tracking/plugin -o liblines_tracker.so \
 *      deploy/examples/tracker/lines_tracker.c
 *   acceld --tracker_plugin "$PWD/liblines_tracker.so@sha256:$(sha256sum <liblines_tracker.so | cut
 * -c1-64)"
 *
 * A job asks for it with `tracking: {log_with: [lines]}`, or with an option:
 * `tracking: {trackers: [{custom: {name: lines, options: {file: rows.jsonl}}}]}`. The file is in
 * the job's folder, trackers/lines. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accel_tracker.h"

struct accel_tracker {
  int fd;
  /* Bytes of whole lines, and the last row in them. */
  off_t size;
  int64_t sequence;
};

static int32_t fail(accel_error error, const char* what) {
  snprintf(error.text, error.size, "%s: %s", what, strerror(errno));
  return ACCEL_RETRY;
}

/* JSON text; what comes is UTF-8 already. */
static void put_text(FILE* file, const char* text) {
  fputc('"', file);
  for (; *text != '\0'; ++text) {
    if (*text == '"' || *text == '\\') {
      fprintf(file, "\\%c", *text);
    } else if ((unsigned char)*text < 0x20) {
      fprintf(file, "\\u%04x", (unsigned char)*text);
    } else {
      fputc(*text, file);
    }
  }
  fputc('"', file);
}

static void put_number(FILE* file, double number) {
  if (isfinite(number)) {
    fprintf(file, "%.17g", number);
  } else {
    fputs(isnan(number) ? "\"NaN\"" : number > 0 ? "\"Infinity\"" : "\"-Infinity\"", file);
  }
}

static void put_value(FILE* file, const accel_value* value) {
  switch (value->kind) {
    case ACCEL_BOOL:
      fputs(value->integer ? "true" : "false", file);
      break;
    case ACCEL_INTEGER:
      fprintf(file, "%lld", (long long)value->integer);
      break;
    case ACCEL_NUMBER:
      put_number(file, value->number);
      break;
    case ACCEL_TEXT:
      put_text(file, value->text);
      break;
    default:
      fputs("null", file);
  }
}

/* `"a":1,"b":2`; a value within a map is `"key.part":3`. */
static void put_values(FILE* file, const accel_value* values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    char* key = NULL;
    if (values[i].part != NULL && asprintf(&key, "%s.%s", values[i].key, values[i].part) < 0)
      abort();
    if (i > 0) fputc(',', file);
    put_text(file, key != NULL ? key : values[i].key);
    fputc(':', file);
    put_value(file, &values[i]);
    free(key);
  }
}

/* Appends all of `text` or nothing, and frees it. */
static int32_t append(accel_tracker* tracker, char* text, size_t size, accel_error error) {
  const ssize_t written = pwrite(tracker->fd, text, size, tracker->size);
  free(text);
  if (written == (ssize_t)size) {
    tracker->size += written;
    return ACCEL_OK;
  }
  if (written >= 0) errno = ENOSPC;
  const int32_t result = fail(error, "cannot write the file");
  return ftruncate(tracker->fd, tracker->size) == 0 ? result
                                                    : fail(error, "cannot cut back the file");
}

/* Finds the last row that an earlier process wrote, and cuts off a line that it left unfinished. */
static int recover(accel_tracker* tracker) {
  FILE* file = fdopen(dup(tracker->fd), "r");
  if (file == NULL) return -1;
  char* line = NULL;
  size_t capacity = 0;
  ssize_t length;
  while ((length = getline(&line, &capacity, file)) > 0 && line[length - 1] == '\n') {
    long long sequence = 0;
    if (sscanf(line, "{\"sequence\":%lld", &sequence) == 1) tracker->sequence = sequence;
    tracker->size += length;
  }
  free(line);
  fclose(file);
  return ftruncate(tracker->fd, tracker->size);
}

static int32_t lines_start(const accel_run* run, accel_tracker** tracker, accel_error error) {
  const char* name = "rows.jsonl";
  for (size_t i = 0; i < run->option_count; ++i) {
    if (strcmp(run->options[i].name, "file") != 0 || strchr(run->options[i].value, '/') != NULL) {
      snprintf(error.text, error.size, "option %s is not allowed; allowed: file, without \"/\"",
               run->options[i].name);
      return ACCEL_REFUSED;
    }
    name = run->options[i].value;
  }
  char* path = NULL;
  if (asprintf(&path, "%s/%s", run->folder, name) < 0) return fail(error, "no memory");
  struct accel_tracker* made = calloc(1, sizeof(*made));
  if (made == NULL) abort();
  made->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  free(path);
  if (made->fd >= 0 && recover(made) == 0) {
    *tracker = made;
    return ACCEL_OK;
  }
  const int32_t result = fail(error, "cannot open the file");
  if (made->fd >= 0) close(made->fd);
  free(made);
  return result;
}

static int32_t lines_config(accel_tracker* tracker, const accel_value* values, size_t count,
                            accel_error error) {
  /* Once: a process that goes on with a run is told again. */
  if (tracker->size > 0) return ACCEL_OK;
  char* text = NULL;
  size_t size = 0;
  FILE* file = open_memstream(&text, &size);
  fputs("{\"config\":{", file);
  put_values(file, values, count);
  fputs("}}\n", file);
  fclose(file);
  return append(tracker, text, size, error);
}

static int32_t lines_log(accel_tracker* tracker, const accel_row* rows, size_t count,
                         accel_error error) {
  char* text = NULL;
  size_t size = 0;
  FILE* file = open_memstream(&text, &size);
  int64_t last = tracker->sequence;
  for (size_t i = 0; i < count; ++i) {
    if (rows[i].sequence <= last) continue;
    fprintf(file, "{\"sequence\":%lld,\"step\":%lld,\"time\":%.6f,\"values\":{",
            (long long)rows[i].sequence, (long long)rows[i].step, rows[i].time);
    put_values(file, rows[i].values, rows[i].value_count);
    fputs("}}\n", file);
    last = rows[i].sequence;
  }
  fclose(file);
  const int32_t result = append(tracker, text, size, error);
  if (result == ACCEL_OK) tracker->sequence = last;
  return result;
}

static int32_t lines_finish(accel_tracker* tracker, int32_t outcome, accel_error error) {
  char* text = NULL;
  const int size = asprintf(&text, "{\"outcome\":%d}\n", outcome);
  return size < 0 ? fail(error, "no memory") : append(tracker, text, (size_t)size, error);
}

static void lines_close(accel_tracker* tracker) {
  close(tracker->fd);
  free(tracker);
}

const accel_tracker_plugin* accel_tracker_get_plugin(void) {
  static const accel_tracker_plugin plugin = {
      .abi_version = ACCEL_TRACKER_ABI_VERSION,
      .name = "lines",
      .requires_logging_directory = ACCEL_YES,
      .main_process_only = ACCEL_YES,
      .rewind = ACCEL_TAKES_LAST,
      .start = lines_start,
      .store_init_configuration = lines_config,
      .log = lines_log,
      .finish = lines_finish,
      .close = lines_close,
  };
  return &plugin;
}
