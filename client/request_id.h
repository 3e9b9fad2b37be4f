#ifndef ACCEL_CLIENT_REQUEST_ID_H_
#define ACCEL_CLIENT_REQUEST_ID_H_

#include <string>

namespace accel::client {

// A random UUID (RFC 4122, version 4) in lower-case hexadecimal, from the system's random source.
std::string NewRequestId();

}  // namespace accel::client

#endif  // ACCEL_CLIENT_REQUEST_ID_H_
