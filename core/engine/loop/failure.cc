#include "core/engine/loop/failure.h"

#include <c10/util/Exception.h>

#include <exception>
#include <new>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/engine/loop/training.h"

namespace accel::engine {
namespace {

using accel::v1::Failure;

constexpr absl::string_view kCauseUrl = "type.accel/accel.v1.Failure.Cause";
constexpr absl::string_view kStepUrl = "type.accel/accel.v1.Failure.step";

// A number that a payload holds as text; `absent` without one.
int64_t NumberOf(const absl::Status& status, absl::string_view url, int64_t absent) {
  const auto payload = status.GetPayload(url);
  int64_t number = 0;
  if (!payload.has_value() || !absl::SimpleAtoi(std::string(*payload), &number)) return absent;
  return number;
}

// The first line, without what Gloo puts around its texts: `[<source file>:<line>] <text>. This is
// typically caused by <advice>`.
std::string FirstLine(absl::string_view text) {
  text = text.substr(0, text.find('\n'));
  if (absl::StartsWith(text, "[/")) {
    const size_t end = text.find("] ");
    if (end != absl::string_view::npos) text.remove_prefix(end + 2);
  }
  text = text.substr(0, text.find(". This is typically caused by"));
  return std::string(text);
}

// LibTorch's CPU allocator and Gloo throw general exceptions: only their texts tell them apart.
Failure::Cause CauseOfText(absl::string_view text) {
  for (absl::string_view mark :
       {"DefaultCPUAllocator", "can't allocate memory", "out of memory", "bad_alloc"}) {
    if (absl::StrContains(text, mark)) return Failure::OUT_OF_MEMORY;
  }
  for (absl::string_view mark :
       {"gloo/", "Gloo", "Connection closed by peer", "Connection reset by peer", "NCCL",
        "wait timeout", "Timed out waiting"}) {
    if (absl::StrContains(text, mark)) return Failure::COLLECTIVE;
  }
  return Failure::INTERNAL;
}

absl::Status Describe(absl::string_view what, absl::string_view text, Failure::Cause cause) {
  const std::string message =
      what.empty() ? FirstLine(text) : absl::StrCat(what, ": ", FirstLine(text));
  switch (cause) {
    case Failure::OUT_OF_MEMORY:
      return WithCause(absl::ResourceExhaustedError(message), cause);
    case Failure::COLLECTIVE:
      return WithCause(absl::UnavailableError(message), cause);
    default:
      return WithCause(absl::InternalError(message), cause);
  }
}

}  // namespace

absl::Status WithCause(absl::Status status, Failure::Cause cause) {
  if (!status.ok() && !HasCause(status)) {
    status.SetPayload(kCauseUrl, absl::Cord(absl::StrCat(static_cast<int>(cause))));
  }
  return status;
}

absl::Status WithStep(absl::Status status, int64_t step) {
  if (!status.ok()) status.SetPayload(kStepUrl, absl::Cord(absl::StrCat(step)));
  return status;
}

bool HasCause(const absl::Status& status) { return status.GetPayload(kCauseUrl).has_value(); }

Failure::Cause CauseOf(const absl::Status& status) {
  return static_cast<Failure::Cause>(NumberOf(status, kCauseUrl, Failure::INTERNAL));
}

int64_t StepOf(const absl::Status& status) { return NumberOf(status, kStepUrl, 0); }

absl::Status StatusOfCurrentException(absl::string_view what) {
  try {
    throw;
  } catch (const c10::OutOfMemoryError& error) {
    return Describe(what, error.what_without_backtrace(), Failure::OUT_OF_MEMORY);
  } catch (const c10::DistError& error) {
    return Describe(what, error.what_without_backtrace(), Failure::COLLECTIVE);
  } catch (const c10::Error& error) {
    const absl::string_view text = error.what_without_backtrace();
    return Describe(what, text, CauseOfText(text));
  } catch (const std::bad_alloc& error) {
    return Describe(what, "out of memory", Failure::OUT_OF_MEMORY);
  } catch (const std::exception& error) {
    return Describe(what, error.what(), CauseOfText(error.what()));
  } catch (...) {
    return Describe(what, "unknown exception", Failure::INTERNAL);
  }
}

}  // namespace accel::engine
