#ifndef ACCEL_CORE_CONFIG_JOB_CHECKS_H_
#define ACCEL_CORE_CONFIG_JOB_CHECKS_H_

#include "absl/strings/string_view.h"
#include "accel/v1/job.pb.h"
#include "core/base/errors.h"
#include "core/config/job_spec.h"

// The parts of ValidateJobSpec that are about several fields at once. Each adds what is wrong with
// one part of a job; single fields are checked before, by CheckFields, and a value out of its
// range is not reported again.
namespace accel::config {

// Layers that do not fit together.
void CheckModel(const accel::v1::ModelSpec& model, absl::string_view path,
                FieldViolations* violations);

// Files that do not exist below the node's roots, and options that exclude one another.
void CheckData(const accel::v1::DataSpec& data, const NodeLimits& limits, absl::string_view path,
               FieldViolations* violations);

// How batches are made: streams, workers, and what of the accelerator has no effect with them.
void CheckLoading(const accel::v1::JobSpec& spec, FieldViolations* violations);

// Weights to start from that do not exist below the node's roots.
void CheckInitFrom(const accel::v1::ModelSpec& model, const NodeLimits& limits,
                   absl::string_view path, FieldViolations* violations);

// Model, data and loss that cannot go together, as far as is certain before any data is read.
void CheckTask(const accel::v1::JobSpec& spec, FieldViolations* violations);

// Optimizer and schedule.
void CheckTraining(const accel::v1::JobSpec& spec, FieldViolations* violations);

// The loop, and how a step's loss is averaged.
void CheckLoop(const accel::v1::JobSpec& spec, FieldViolations* violations);

// Ranks, machines and where they meet.
void CheckMachines(const accel::v1::JobSpec& spec, const NodeLimits& limits,
                   FieldViolations* violations);

// A metric that the job will have no value of: one of "train/loss", "eval/loss", "eval/accuracy"
// and "eval/perplexity".
void CheckMetric(const accel::v1::JobSpec& spec, absl::string_view metric, absl::string_view path,
                 FieldViolations* violations);

// An optimizer or a schedule that cannot go with the rest of the job.
void CheckOptimizer(const accel::v1::JobSpec& spec, FieldViolations* violations);

// Trackers: names, repeats, and what is not implemented.
void CheckTracking(const accel::v1::TrackingSpec& tracking, absl::string_view path,
                   FieldViolations* violations);

}  // namespace accel::config

#endif  // ACCEL_CORE_CONFIG_JOB_CHECKS_H_
