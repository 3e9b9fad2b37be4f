#ifndef ACCEL_CLIENT_CLI_FOLLOW_H_
#define ACCEL_CLIENT_CLI_FOLLOW_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/context.h"

namespace accel::cli {

// How a followed job came out.
struct FollowOutcome {
  // As it is at the end.
  v1::Job job;
  // The user went away before the job ended.
  bool detached = false;
};

// Shows a job's progress on standard error until it ends. The first SIGINT asks the job to stop in
// order, the second one leaves it alone. An error leaves the job as it is.
absl::StatusOr<FollowOutcome> FollowJob(Context& context, client::Client& client,
                                        const std::string& name);

// `jobs/mnist SUCCEEDED after 12s, 790 steps`, with the failure where there is one.
std::string OutcomeLine(const v1::Job& job);

}  // namespace accel::cli

#endif  // ACCEL_CLIENT_CLI_FOLLOW_H_
