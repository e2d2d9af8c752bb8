#pragma once
// The names that configs use for choices.
#include <base/fail.hpp>
#include <models/config_reader.hpp>
#include <rapt/kernels/kinds.hpp>
#include <rapt/nn/positions.hpp>

#include <initializer_list>
#include <utility>

namespace rapt::models {

constexpr EnumName<Activation> kActivationNames[] = {{"relu", Activation::relu},
                                                     {"gelu", Activation::gelu},
                                                     {"gelu_new", Activation::gelu_tanh},
                                                     {"silu", Activation::silu}};
constexpr EnumName<NormKind> kNormNames[] = {{"layer", NormKind::layer}, {"rms", NormKind::rms}};
constexpr EnumName<nn::Position> kPositionNames[] = {{"none", nn::Position::none},
                                                     {"sinusoidal", nn::Position::sinusoidal},
                                                     {"learned", nn::Position::learned},
                                                     {"rotary", nn::Position::rotary},
                                                     {"alibi", nn::Position::alibi}};

/// Sizes above this are surely a mistake, and products of two of them still fit in 64 bits.
constexpr int64_t kLargestSize = int64_t(1) << 30;
inline auto size_range() { return between<int64_t>(1, kLargestSize); }
/// A file that asks for more layers than this is broken or hostile; it would be built for minutes before it fails.
constexpr int64_t kMostLayers = 1024;
inline auto layer_range() { return between<int64_t>(1, kMostLayers); }
inline auto rate_range() { return half_open(0.0, 1.0); }

/// For configs that are made in code.
inline void require_rate(const char* family, const char* name, double rate) {
  require<ConfigError>(rate >= 0 && rate < 1, "[{}] {} {} is outside [0, 1)", family, name, rate);
}
inline void require_eps(const char* family, double eps) {
  require<ConfigError>(eps > 0, "[{}] norm_eps {} must be above 0", family, eps);
}
inline void require_ids(std::initializer_list<std::pair<const char*, int64_t>> ids, int64_t vocabulary) {
  for (const auto& [name, id] : ids)
    require<ConfigError>(id >= 0 && id < vocabulary, "[config] {} {} is outside the vocabulary of {} tokens", name, id,
                         vocabulary);
}

template <class Config>
Config checked(const Config& config) {
  config.check();
  return config;
}

}  // namespace rapt::models
