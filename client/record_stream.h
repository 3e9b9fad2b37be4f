#ifndef ACCEL_CLIENT_RECORD_STREAM_H_
#define ACCEL_CLIENT_RECORD_STREAM_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace accel::client {

// A stream that broke off and will be taken up again.
struct StreamInterruption {
  // Why it broke off.
  absl::Status cause;
  // Number of the coming try, 1 for the first after a message.
  int attempt = 0;
  // The stream goes on after this row.
  int64_t sequence = 0;
  // Wait before the try.
  absl::Duration delay;
};

// How a broken stream is taken up again. The waits double from `first_delay` to `max_delay`, each
// shortened at random by up to a fifth.
struct ResumePolicy {
  // Most tries in a row without a message between them, at least 0. The default spans a restart of
  // the daemon of about half a minute. A daemon that never answered this client gets 3 at most.
  int max_attempts = 12;
  absl::Duration first_delay = absl::Milliseconds(100);
  absl::Duration max_delay = absl::Seconds(5);
  // Told of each interruption on the thread that calls Next(). Default: nobody.
  std::function<void(const StreamInterruption&)> observer;
};

// Rows of a job's record, pulled one at a time in order, each once. A stream that breaks off
// (UNAVAILABLE, a lost connection) is taken up again behind the last row. One thread pulls; Cancel
// may be called from any.
template <typename Record>
class RecordStream {
 public:
  virtual ~RecordStream() = default;

  // Blocks for the next row; nothing at the orderly end. CANCELLED after Cancel(); any other error
  // is final and a new stream may start after sequence().
  virtual absl::StatusOr<std::optional<Record>> Next() = 0;

  // All rows up to this one were returned (or left out by the request's own filter).
  virtual int64_t sequence() const = 0;

  // Ends a blocked Next and every later one.
  virtual void Cancel() = 0;
};

}  // namespace accel::client

#endif  // ACCEL_CLIENT_RECORD_STREAM_H_
