#include "client/cli/progress.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/human.h"

namespace accel::cli {
namespace {

constexpr absl::Duration kRateWindow = absl::Seconds(10);
constexpr int kWidestBar = 40;
constexpr int kNarrowestBar = 8;

std::optional<double> NumberOf(const v1::MetricRecord& record, const char* key) {
  const auto it = record.values().find(key);
  if (it == record.values().end() || !it->second.has_number()) return std::nullopt;
  return it->second.number();
}

void Update(std::optional<double>* value, std::optional<double> news) {
  if (news.has_value()) *value = news;
}

std::string FillBar(int width, double fraction) {
  const int filled = static_cast<int>(std::floor(width * fraction));
  return absl::StrCat("[", std::string(static_cast<size_t>(filled), '#'),
                      std::string(static_cast<size_t>(width - filled), '-'), "]");
}

}  // namespace

void RateMeter::Add(absl::Time time, int64_t step) {
  if (!points_.empty() && step <= points_.back().second) {
    if (step == points_.back().second) return;
    points_.clear();
  }
  points_.emplace_back(time, step);
  while (points_.size() > 2 && time - points_.front().first > kRateWindow) points_.pop_front();
}

std::optional<double> RateMeter::StepsPerSecond() const {
  if (points_.size() < 2) return std::nullopt;
  const absl::Duration elapsed = points_.back().first - points_.front().first;
  if (elapsed <= absl::ZeroDuration()) return std::nullopt;
  return static_cast<double>(points_.back().second - points_.front().second) /
         absl::ToDoubleSeconds(elapsed);
}

void ProgressState::OnEvent(const v1::EventRecord& event) {
  if (event.has_state_changed()) state_ = StateName(event.state_changed().to());
  if (event.has_training_started()) {
    step_ = event.training_started().step();
    total_steps_ = event.training_started().total_steps();
    epoch_ = event.training_started().epoch();
    total_epochs_ = event.training_started().total_epochs();
  }
}

void ProgressState::OnMetrics(const v1::MetricRecord& record) {
  step_ = std::max(step_, record.step());
  rate_.Add(ToTime(record.time()), record.step());
  if (const auto epoch = NumberOf(record, "train/epoch"); epoch.has_value()) {
    epoch_ = static_cast<int64_t>(*epoch);
  }
  Update(&loss_, NumberOf(record, "train/loss"));
  Update(&evaluation_loss_, NumberOf(record, "eval/loss"));
  Update(&accuracy_, NumberOf(record, "eval/accuracy"));
}

std::optional<double> ProgressState::Fraction() const {
  if (total_steps_ <= 0) return std::nullopt;
  return std::clamp(static_cast<double>(step_) / static_cast<double>(total_steps_), 0.0, 1.0);
}

std::string ProgressState::Steps() const {
  return total_steps_ > 0 ? absl::StrCat(step_, "/", total_steps_) : absl::StrCat(step_);
}

std::vector<std::pair<int, std::string>> ProgressState::Details() const {
  std::vector<std::pair<int, std::string>> details;
  if (total_epochs_ > 0) {
    const int64_t shown = std::min(epoch_ + 1, total_epochs_);
    details.emplace_back(2, absl::StrCat("epoch ", shown, "/", total_epochs_));
  }
  if (const std::optional<double> rate = rate_.StepsPerSecond(); rate.has_value() && *rate > 0) {
    details.emplace_back(3, *rate >= 1 ? absl::StrFormat("%.1f steps/s", *rate)
                                       : absl::StrFormat("%.1f s/step", 1 / *rate));
    if (step_ < total_steps_ && state_ == StateName(v1::Job::RUNNING)) {
      const absl::Duration left = absl::Seconds(static_cast<double>(total_steps_ - step_) / *rate);
      details.emplace_back(4, absl::StrCat("eta ", HumanDuration(left)));
    }
  }
  if (loss_.has_value()) details.emplace_back(5, absl::StrFormat("loss %.4g", *loss_));
  if (evaluation_loss_.has_value()) {
    details.emplace_back(0, absl::StrFormat("eval loss %.4g", *evaluation_loss_));
  }
  if (accuracy_.has_value()) details.emplace_back(1, absl::StrFormat("accuracy %.4f", *accuracy_));
  return details;
}

std::string ProgressState::Bar(int width) const {
  std::string head = EscapeControls(label_);
  if (state_ != StateName(v1::Job::RUNNING)) absl::StrAppend(&head, "  ", state_);
  const std::optional<double> fraction = Fraction();
  if (!fraction.has_value() && step_ == 0) {
    return head.substr(0, static_cast<size_t>(std::max(width, 0)));
  }
  if (fraction.has_value()) absl::StrAppendFormat(&head, " %3.0f%%", std::floor(*fraction * 100));
  std::vector<std::pair<int, std::string>> details = Details();
  while (true) {
    std::string tail = absl::StrCat(" ", Steps());
    for (const auto& [importance, text] : details) absl::StrAppend(&tail, "  ", text);
    const int room = width - DisplayWidth(head) - DisplayWidth(tail) - 3;
    if (fraction.has_value() && room >= kNarrowestBar) {
      return absl::StrCat(head, " ", FillBar(std::min(room, kWidestBar), *fraction), tail);
    }
    if (details.empty() || (!fraction.has_value() && room >= -3)) {
      return absl::StrCat(head, tail).substr(0, static_cast<size_t>(std::max(width, 0)));
    }
    details.erase(std::min_element(details.begin(), details.end()));
  }
}

std::string ProgressState::Line() const {
  std::string line = absl::StrCat(EscapeControls(label_), ": ");
  if (state_ != StateName(v1::Job::RUNNING)) absl::StrAppend(&line, state_, "  ");
  absl::StrAppend(&line, "step ", Steps());
  if (const std::optional<double> fraction = Fraction(); fraction.has_value()) {
    absl::StrAppendFormat(&line, " (%.0f%%)", std::floor(*fraction * 100));
  }
  for (const auto& [importance, text] : Details()) absl::StrAppend(&line, "  ", text);
  return line;
}

}  // namespace accel::cli
