#pragma once
// Everything at once.
#include <rapt/autograd/gradient_check.hpp>
#include <rapt/autograd/tape.hpp>
#include <rapt/base/error.hpp>
#include <rapt/base/random.hpp>
#include <rapt/base/threads.hpp>
#include <rapt/models/folder.hpp>
#include <rapt/models/safetensors.hpp>
#include <rapt/ops/ops.hpp>
#include <rapt/tensor/tensor.hpp>
#include <rapt/train/optimiser.hpp>
#include <rapt/train/schedule.hpp>
