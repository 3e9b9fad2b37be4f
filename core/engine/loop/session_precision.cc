#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/engine/checkpoint/state_section.h"
#include "core/engine/loop/session.h"

// What of a session is about mixed precision, and the schedule's part in a checkpoint.
namespace accel::engine {
namespace {

// JSON has no NaN and no infinity: those are texts.
nlohmann::json FromDouble(double value) {
  if (std::isfinite(value)) return value;
  return absl::StrCat(value);
}

double ToDouble(const nlohmann::json& value) {
  double number = 0;
  if (value.is_string() && absl::SimpleAtod(value.get<std::string>(), &number)) return number;
  return value.get<double>();
}

// Named as accelerator.save_state names it.
StateSection ScalerSection(GradScaler& scaler) {
  StateSection section;
  section.name = "scaler";
  section.save = [&scaler]() -> absl::StatusOr<SectionState> {
    const GradScaler::State state = scaler.Save();
    SectionState saved;
    saved.values = {{"scale", state.scale},
                    {"growth_tracker", state.growth_tracker},
                    {"skipped_steps", state.skipped_steps}};
    return saved;
  };
  section.restore = [&scaler](const SectionState& saved) -> absl::Status {
    scaler.Restore({.scale = saved.values.at("scale").get<double>(),
                    .growth_tracker = saved.values.at("growth_tracker").get<int64_t>(),
                    .skipped_steps = saved.values.at("skipped_steps").get<int64_t>()});
    return absl::OkStatus();
  };
  return section;
}

StateSection PlateauSection(ReduceOnPlateau& plateau) {
  StateSection section;
  section.name = "reduce_on_plateau";
  section.save = [&plateau]() -> absl::StatusOr<SectionState> {
    const ReduceOnPlateau::State& state = plateau.state();
    SectionState saved;
    saved.values = {{"metric", plateau.metric()},
                    {"rate", state.rate},
                    {"bad_values", state.bad_values},
                    {"cooldown", state.cooldown},
                    {"loss_sum", FromDouble(state.loss_sum)},
                    {"losses", state.losses}};
    if (state.best.has_value()) saved.values["best"] = FromDouble(*state.best);
    return saved;
  };
  section.restore = [&plateau](const SectionState& saved) -> absl::Status {
    const auto& values = saved.values;
    ReduceOnPlateau::State state;
    state.rate = values.at("rate").get<double>();
    // Values of another metric say nothing of this one.
    if (values.at("metric").get<std::string>() == plateau.metric()) {
      if (values.contains("best")) state.best = ToDouble(values.at("best"));
      state.bad_values = values.at("bad_values").get<int64_t>();
      state.cooldown = values.at("cooldown").get<int64_t>();
      state.loss_sum = ToDouble(values.at("loss_sum"));
      state.losses = values.at("losses").get<int64_t>();
    }
    plateau.Restore(state);
    return absl::OkStatus();
  };
  return section;
}

}  // namespace

void Session::CreateScaler() {
  if (accelerator().mixed_precision() != "fp16") return;
  scaler_.emplace(accelerator().scaler_kwargs(), parameters_, device_);
}

absl::Status Session::AddPrecisionSections() {
  if (scales_loss()) ACCEL_RETURN_IF_ERROR(AddSection(ScalerSection(*scaler_)));
  if (schedule_->plateau() != nullptr) {
    ACCEL_RETURN_IF_ERROR(AddSection(PlateauSection(*schedule_->plateau())));
  }
  ApplySchedule();
  return absl::OkStatus();
}

void Session::Backward(const at::Tensor& loss) {
  (scaler_.has_value() ? scaler_->Scale(loss) : loss).backward();
}

void Session::UnscaleGradients() {
  if (scaler_.has_value()) scaler_->Unscale();
}

bool Session::StepOptimizer() {
  if (!scaler_.has_value()) {
    optimizer_->Step();
    return true;
  }
  const bool stepped = scaler_->Step(*optimizer_);
  scaler_->Update();
  if (!stepped && hook_state_ != nullptr) hook_state_->ForgetNonFinite();
  return stepped;
}

void Session::ApplySchedule() {
  optimizer_->set_learning_rate(schedule_->LearningRate());
  if (const auto momentum = schedule_->Momentum()) optimizer_->set_momentum(*momentum);
}

}  // namespace accel::engine
