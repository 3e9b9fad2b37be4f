#include "core/engine/data/prefetcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/loop/failure.h"

namespace accel::engine {

absl::StatusOr<std::optional<Batch>> MakeBatch(BatchSource& source, int64_t b, bool pin_memory) {
  return Guarded(absl::StrCat("batch ", b), [&]() -> absl::StatusOr<std::optional<Batch>> {
    ACCEL_ASSIGN_OR_RETURN(std::optional<Batch> batch, source.Make(b));
    if (batch.has_value() && pin_memory) {
      batch->features = batch->features.pin_memory();
      batch->targets = batch->targets.pin_memory();
    }
    return batch;
  });
}

Prefetcher::Prefetcher(BatchSource& source, int64_t begin, int64_t end, const Options& options)
    : source_(source),
      options_(options),
      next_to_make_(begin),
      next_to_give_(begin),
      end_(std::max(begin, end)) {
  const int64_t workers =
      source.random_access() ? std::min(options.workers, end_ - begin) : int64_t{1};
  for (int64_t i = 0; i < workers; ++i) workers_.emplace_back([this] { Work(); });
}

Prefetcher::~Prefetcher() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
  }
  for (std::thread& worker : workers_) worker.join();
}

bool Prefetcher::MayMake() const {
  return stop_ || next_to_make_ >= end_ || next_to_make_ < next_to_give_ + options_.depth;
}

void Prefetcher::Work() {
  for (;;) {
    int64_t b = 0;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Prefetcher::MayMake));
      if (stop_ || next_to_make_ >= end_) return;
      b = next_to_make_++;
    }
    Made made = MakeBatch(source_, b, options_.pin_memory);
    absl::MutexLock lock(&mutex_);
    // Behind an end or an error there is nothing to make.
    if (!made.ok() || !made->has_value()) end_ = std::min(end_, b + 1);
    made_.emplace(b, std::move(made));
  }
}

absl::StatusOr<std::optional<Batch>> Prefetcher::Next() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &Prefetcher::NextIsMade));
  if (next_to_give_ >= end_) return std::nullopt;
  auto next = made_.extract(next_to_give_);
  if (next.mapped().ok() && next.mapped()->has_value()) {
    ++next_to_give_;
  } else {
    end_ = next_to_give_;
  }
  return std::move(next.mapped());
}

}  // namespace accel::engine
