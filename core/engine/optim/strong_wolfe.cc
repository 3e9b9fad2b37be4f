#include "core/engine/optim/strong_wolfe.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/dot.h>
#include <ATen/ops/max.h>

#include <utility>

namespace accel::engine {
namespace {

constexpr double kSufficientDecrease = 1e-4;
constexpr double kCurvature = 0.9;

struct Bounds {
  Real low;
  Real high;
};

// Where the cubic through two points with their slopes is smallest, within the bounds.
Real Interpolate(const LinePoint& a, const LinePoint& b, const Bounds& bounds) {
  const Real d1 = a.slope + b.slope -
                  Real(3) * Real(a.evaluation.loss - b.evaluation.loss) / (a.length - b.length);
  const Real square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (bounds.low + bounds.high) / 2;
  const Real d2 = Sqrt(square);
  const Real least = a.length <= b.length
                         ? b.length - (b.length - a.length) *
                                          ((b.slope + d2 - d1) / (b.slope - a.slope + Real(2) * d2))
                         : a.length - (a.length - b.length) * ((a.slope + d2 - d1) /
                                                               (a.slope - b.slope + Real(2) * d2));
  return Min(Max(least, bounds.low), bounds.high);
}

class Search {
 public:
  Search(const std::function<Evaluation(Real)>& evaluate, const at::Tensor& direction,
         const LinePoint& start, double tolerance_change, int64_t most)
      : evaluate_(evaluate),
        direction_(direction),
        start_(start),
        tolerance_change_(tolerance_change),
        most_(most) {}

  LineSearchResult Run(Real first) {
    Bracket(first);
    OrderBracket();
    if (!found_) Zoom();
    return {bracket_[low_], evaluations_};
  }

 private:
  LinePoint Evaluate(Real length) {
    Evaluation evaluation = evaluate_(length);
    ++evaluations_;
    const Real slope = Dot(evaluation.gradient, direction_);
    return {length, std::move(evaluation), slope};
  }

  bool DecreasesTooLittle(const LinePoint& point) const {
    return Real(point.evaluation.loss) >
           Real(start_.evaluation.loss) + Real(kSufficientDecrease) * point.length * start_.slope;
  }

  bool IsFlat(const LinePoint& point) const {
    return Abs(point.slope) <= Real(-kCurvature) * start_.slope;
  }

  // Goes out until an interval must hold a point that satisfies the conditions.
  void Bracket(Real first) {
    LinePoint previous = start_;
    LinePoint point = Evaluate(first);
    for (; iterations_ < most_; ++iterations_) {
      const bool rises = iterations_ > 1 && point.evaluation.loss >= previous.evaluation.loss;
      if (DecreasesTooLittle(point) || rises) return SetBracket(previous, point);
      if (IsFlat(point)) {
        found_ = true;
        bracket_[0] = bracket_[1] = point;
        return;
      }
      if (point.slope >= 0) return SetBracket(previous, point);
      const Bounds bounds{point.length + Real(0.01) * (point.length - previous.length),
                          point.length * Real(10)};
      const Real next = Interpolate(previous, point, bounds);
      previous = std::exchange(point, Evaluate(next));
    }
    SetBracket(start_, point);
  }

  // Narrows the interval until its better end satisfies the conditions.
  void Zoom() {
    const Real scale = LargestMagnitude(direction_);
    bool stuck = false;
    for (; !found_ && iterations_ < most_; ++iterations_) {
      if (Abs(bracket_[1].length - bracket_[0].length) * scale < tolerance_change_) return;
      const Real low = Min(bracket_[0].length, bracket_[1].length);
      const Real high = Max(bracket_[0].length, bracket_[1].length);
      const Bounds bounds = bracket_[0].length <= bracket_[1].length
                                ? Bounds{bracket_[0].length, bracket_[1].length}
                                : Bounds{bracket_[1].length, bracket_[0].length};
      const Real trial =
          AwayFromEnds(Interpolate(bracket_[0], bracket_[1], bounds), low, high, &stuck);
      Narrow(Evaluate(trial));
    }
  }

  // A trial close to an end of the interval, for the second time or at the end itself, moves a
  // tenth of the interval inwards.
  static Real AwayFromEnds(Real trial, Real low, Real high, bool* stuck) {
    const Real margin = Real(0.1) * (high - low);
    if (!(Min(high - trial, trial - low) < margin)) {
      *stuck = false;
      return trial;
    }
    if (!*stuck && trial < high && trial > low) {
      *stuck = true;
      return trial;
    }
    *stuck = false;
    return Abs(trial - high) < Abs(trial - low) ? high - margin : low + margin;
  }

  void Narrow(const LinePoint& point) {
    const int high = 1 - low_;
    if (DecreasesTooLittle(point) || point.evaluation.loss >= bracket_[low_].evaluation.loss) {
      bracket_[high] = point;
      OrderBracket();
      return;
    }
    if (IsFlat(point)) {
      found_ = true;
    } else if (point.slope * (bracket_[high].length - bracket_[low_].length) >= 0) {
      bracket_[high] = bracket_[low_];
    }
    bracket_[low_] = point;
  }

  void SetBracket(const LinePoint& first, const LinePoint& second) {
    bracket_[0] = first;
    bracket_[1] = second;
  }

  void OrderBracket() { low_ = bracket_[0].evaluation.loss <= bracket_[1].evaluation.loss ? 0 : 1; }

  const std::function<Evaluation(Real)>& evaluate_;
  const at::Tensor direction_;
  const LinePoint start_;
  const double tolerance_change_;
  const int64_t most_;
  int64_t evaluations_ = 0;
  int64_t iterations_ = 0;
  bool found_ = false;
  LinePoint bracket_[2];
  // The end of the bracket with the smaller loss.
  int low_ = 0;
};

}  // namespace

Real Dot(const at::Tensor& a, const at::Tensor& b) {
  return Real::Tensor(at::dot(a, b).item<float>());
}

Real LargestMagnitude(const at::Tensor& tensor) {
  return Real::Tensor(at::max(at::abs(tensor)).item<float>());
}

LineSearchResult SearchStrongWolfe(const std::function<Evaluation(Real)>& evaluate,
                                   const at::Tensor& direction, const LinePoint& start, Real first,
                                   double tolerance_change, int64_t most_further) {
  return Search(evaluate, direction, start, tolerance_change, most_further).Run(first);
}

}  // namespace accel::engine
