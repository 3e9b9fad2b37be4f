#ifndef ACCEL_SERVER_DAEMON_NODE_INFO_H_
#define ACCEL_SERVER_DAEMON_NODE_INFO_H_

#include "absl/time/time.h"
#include "accel/v1/node.pb.h"
#include "server/daemon/options.h"

namespace accel::daemon {

// NVIDIA devices of the machine, counted by their device files.
int CountCudaDevices();

// What is known of the node before it serves: everything but addresses and load.
accel::v1::Node DescribeNode(const DaemonOptions& options, absl::Time start_time);

}  // namespace accel::daemon

#endif  // ACCEL_SERVER_DAEMON_NODE_INFO_H_
