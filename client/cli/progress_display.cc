#include "client/cli/progress_display.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/human.h"

namespace accel::cli {
namespace {

constexpr absl::Duration kBetweenDrawings = absl::Milliseconds(100);
constexpr absl::Duration kBetweenLines = absl::Seconds(5);
constexpr char kClearLine[] = "\r\x1b[K";

}  // namespace

ProgressDisplay::ProgressDisplay(const Io& io, std::string label)
    : io_(io), state_(std::move(label)) {}

ProgressDisplay::~ProgressDisplay() {
  absl::MutexLock lock(&mutex_);
  if (io_.err_is_terminal) {
    Draw();
    io_.err << '\n';
  } else if (state_.step() > last_line_step_) {
    PrintLineLocked(state_.Line());
  }
  io_.err.flush();
}

void ProgressDisplay::OnEvent(const v1::EventRecord& event) {
  absl::MutexLock lock(&mutex_);
  state_.OnEvent(event);
  if (!event.message().empty()) PrintLineLocked(EscapeControls(event.message()));
  if (io_.err_is_terminal) Draw();
}

void ProgressDisplay::OnMetrics(const v1::MetricRecord& record) {
  absl::MutexLock lock(&mutex_);
  state_.OnMetrics(record);
  const absl::Duration now = io_.clock.Monotonic();
  if (io_.err_is_terminal) {
    if (now - last_ < kBetweenDrawings) return;
    Draw();
  } else {
    const bool evaluated = record.values().contains("eval/loss");
    if (last_ == -absl::InfiniteDuration()) last_ = now;
    if (!evaluated && now - last_ < kBetweenLines) return;
    PrintLineLocked(state_.Line());
    last_line_step_ = state_.step();
  }
  last_ = now;
}

void ProgressDisplay::PrintLine(absl::string_view line) {
  absl::MutexLock lock(&mutex_);
  PrintLineLocked(line);
  if (io_.err_is_terminal && drawn_) Draw();
}

void ProgressDisplay::PrintLineLocked(absl::string_view line) {
  io_.err << (io_.err_is_terminal && drawn_ ? kClearLine : "") << line << std::endl;
}

void ProgressDisplay::Draw() {
  // The last column stays free: some terminals wrap a line that fills it.
  io_.err << kClearLine << state_.Bar(io_.columns() - 1) << std::flush;
  drawn_ = true;
}

}  // namespace accel::cli
