#ifndef ACCEL_CORE_ENGINE_OPTIM_REAL_H_
#define ACCEL_CORE_ENGINE_OPTIM_REAL_H_

#include <cmath>

namespace accel::engine {

// A number as a PyTorch program has it: a Python float, or a float32 scalar tensor. Between two
// floats arithmetic is in double precision; with a tensor the result is a tensor, rounded to single
// precision after each operation.
class Real {
 public:
  // A Python float.
  Real(double value = 0) : value_(value) {}  // NOLINT(google-explicit-constructor)
  static Real Tensor(float value) {
    Real real(static_cast<double>(value));
    real.is_tensor_ = true;
    return real;
  }

  double value() const { return value_; }
  bool is_tensor() const { return is_tensor_; }

  friend Real operator+(Real a, Real b) {
    return AreFloats(a, b) ? Real(a.value_ + b.value_) : Tensor(a.single() + b.single());
  }
  friend Real operator-(Real a, Real b) {
    return AreFloats(a, b) ? Real(a.value_ - b.value_) : Tensor(a.single() - b.single());
  }
  friend Real operator*(Real a, Real b) {
    return AreFloats(a, b) ? Real(a.value_ * b.value_) : Tensor(a.single() * b.single());
  }
  // torch divides a float by a tensor as a product with its reciprocal.
  friend Real operator/(Real a, Real b) {
    if (AreFloats(a, b)) return a.value_ / b.value_;
    if (a.is_tensor_) return Tensor(a.single() / b.single());
    const float reciprocal = 1.0F / b.single();
    return Tensor(reciprocal * a.single());
  }
  friend Real operator-(Real a) {
    a.value_ = -a.value_;
    return a;
  }

  friend bool operator<(Real a, Real b) {
    return AreFloats(a, b) ? a.value_ < b.value_ : a.single() < b.single();
  }
  friend bool operator<=(Real a, Real b) {
    return AreFloats(a, b) ? a.value_ <= b.value_ : a.single() <= b.single();
  }
  friend bool operator>(Real a, Real b) { return b < a; }
  friend bool operator>=(Real a, Real b) { return b <= a; }

  friend Real Abs(Real a) {
    a.value_ = std::abs(a.value_);
    return a;
  }
  friend Real Sqrt(Real a) {
    return a.is_tensor_ ? Tensor(std::sqrt(a.single())) : Real(std::sqrt(a.value_));
  }
  // Python's: the first one unless the second is smaller, or greater.
  friend Real Min(Real a, Real b) { return b < a ? b : a; }
  friend Real Max(Real a, Real b) { return b > a ? b : a; }

 private:
  static bool AreFloats(Real a, Real b) { return !a.is_tensor_ && !b.is_tensor_; }
  float single() const { return static_cast<float>(value_); }

  double value_;
  bool is_tensor_ = false;
};

}  // namespace accel::engine

#endif  // ACCEL_CORE_ENGINE_OPTIM_REAL_H_
