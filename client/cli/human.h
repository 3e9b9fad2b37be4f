#ifndef ACCEL_CLIENT_CLI_HUMAN_H_
#define ACCEL_CLIENT_CLI_HUMAN_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "accel/v1/job.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace accel::cli {

// `0.4s`, `12s`, `3m05s`, `2h07m`, `3d04h`; negative counts as zero.
std::string HumanDuration(absl::Duration duration);

// `512 B`, `1.5 KiB`, `20.0 MiB`, ...
std::string HumanBytes(int64_t bytes);

// `2031-05-01 12:30:01`; empty for an absent (zero) time.
std::string HumanTime(const google::protobuf::Timestamp& time, absl::TimeZone zone);

// At most 6 significant digits, as %g; `nan`, `inf`.
std::string HumanNumber(double value);

// Every digit that a double needs to be read back.
std::string ExactNumber(double value);

absl::Time ToTime(const google::protobuf::Timestamp& time);

// `RUNNING`; `STATE <number>` for a state that this client does not know.
std::string StateName(v1::Job::State state);

bool IsTerminal(v1::Job::State state);

// Text of others, safe for a terminal: control characters (C0, DEL, C1) and bytes that are no UTF-8
// come out as `\x1b`, a tab and a new line as `\t` and `\n`.
std::string EscapeControls(absl::string_view text);

// Characters of UTF-8 text, each counted as one column.
int DisplayWidth(absl::string_view text);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_HUMAN_H_
