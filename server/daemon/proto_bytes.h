#ifndef ACCEL_SERVER_DAEMON_PROTO_BYTES_H_
#define ACCEL_SERVER_DAEMON_PROTO_BYTES_H_

#include <string>

#include "google/protobuf/message_lite.h"

namespace accel::daemon {

// Bytes that are the same for equal messages, maps included, within one build.
std::string DeterministicBytes(const google::protobuf::MessageLite& message);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_PROTO_BYTES_H_
