#ifndef ACCEL_CORE_BASE_STATUS_MACROS_H_
#define ACCEL_CORE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function with `expr`'s status unless it is OK.
#define ACCEL_RETURN_IF_ERROR(expr)                                                     \
  do {                                                                                  \
    if (absl::Status accel_status_ = (expr); !accel_status_.ok()) return accel_status_; \
  } while (false)

// Evaluates a StatusOr; returns its status from the enclosing function, or assigns its value to
// `lhs`, which may declare a variable.
#define ACCEL_ASSIGN_OR_RETURN(lhs, expr) \
  ACCEL_ASSIGN_OR_RETURN_IMPL_(ACCEL_CONCAT_(accel_statusor_, __LINE__), lhs, expr)

#define ACCEL_ASSIGN_OR_RETURN_IMPL_(statusor, lhs, expr)  \
  auto statusor = (expr);                                  \
  if (!statusor.ok()) return std::move(statusor).status(); \
  lhs = *std::move(statusor)

#define ACCEL_CONCAT_(a, b) ACCEL_CONCAT_IMPL_(a, b)
#define ACCEL_CONCAT_IMPL_(a, b) a##b

#endif  // ACCEL_CORE_BASE_STATUS_MACROS_H_
