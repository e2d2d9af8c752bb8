#pragma once
#include <rapt/models/decoder_only.hpp>
#include <rapt/models/encoder_decoder.hpp>
#include <rapt/models/encoder_only.hpp>
#include <rapt/models/recurrent_seq2seq.hpp>

#include <filesystem>
#include <memory>

namespace rapt::models {

/// A model is a folder with `config.json` and `model.safetensors`.

/// Writes both, each in one step: weights as `dtype` (f32, bf16, f16; f64 for models in f64). Creates the folder.
template <class Model>
void save(const Model& model, const std::filesystem::path& folder, DType dtype = DType::f32);

/// Builds the model of a folder. Every tensor is accounted for: missing, unexpected and mis-shaped ones are listed by
/// name in a FileError.
template <class Model>
std::unique_ptr<Model> load(const std::filesystem::path& folder, DType dtype = DType::f32);

/// What config.json says the folder holds: "rapt-encoder-decoder", "rapt-encoder", "rapt-decoder", "rapt-recurrent".
std::string model_type(const std::filesystem::path& folder);

}  // namespace rapt::models
